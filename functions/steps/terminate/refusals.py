"""What AWS's refusals mean for a machine that is to be rebooted or to end.

What is worth another try within the call, the gateway has tried. What is left is said, written
down, and asked again in a minute where it passes by itself, in an hour where a person has to do
something.
"""

from functions.gateways.aws import errors
from functions.rules.replacing import Seen
from functions.steps.terminate.way import LATER, SOON, Asked, Look

_PASSES = (errors.Throttled, errors.Busy, errors.ServerError, errors.Unreachable)


def asked(problem: errors.AwsError) -> Asked:
    if isinstance(problem, errors.AlreadyTerminating):
        return Asked(done=True, says="it was on its way out already")
    if isinstance(problem, errors.Unreachable):
        # Nobody knows whether it was done: the next look says.
        return Asked(done=False, says=str(problem), again=SOON, perhaps=True)
    return Asked(
        done=False, says=str(problem), again=SOON if isinstance(problem, _PASSES) else LATER
    )


def look(problem: Exception) -> Look:
    return Look(seen=Seen.UNKNOWN, says=str(problem))
