"""What EC2 and a group say of an instance, as the ways to end it understand it."""

from collections.abc import Iterable

import pytest

from functions.gateways.aws import types
from functions.gateways.aws.client import Aws
from functions.rules.replacing import Seen
from functions.steps.terminate import Machine
from functions.steps.terminate.autoscaling import AutoScaling
from functions.steps.terminate.ec2 import Ec2

OURS, THEIRS = "111122223333", "999999999999"
ONE = Machine(provider_id="aws:///us-east-1a/i-1", name="n1", node=None)


class Told(Aws):
    """AWS that knows one instance."""

    def __init__(self, state: str = "running", account: str = OURS) -> None:
        super().__init__()
        self._found = types.Instance(
            instance_id="i-1", account=account, zone="us-east-1a", state=state
        )

    def account(self, region: str) -> str:
        return OURS

    def instance(self, machine: types.Machine) -> types.Instance:
        return self._found

    def groups(self, region: str, names: Iterable[str]) -> dict[str, types.Group]:
        return {}


@pytest.mark.parametrize(
    ("state", "seen"),
    [
        ("pending", Seen.RUNNING),
        ("running", Seen.RUNNING),
        ("stopping", Seen.ENDING),
        ("stopped", Seen.STOPPED),
        ("shutting-down", Seen.ENDING),
        ("terminated", Seen.GONE),
        ("", Seen.UNKNOWN),
    ],
)
def test_only_what_ec2_has_ended_is_gone(state: str, seen: Seen) -> None:
    """One that is stopped may be started again, on another host."""
    assert Ec2(Told(state)).look(ONE).seen is seen


def test_an_instance_of_another_account_is_none_of_ours() -> None:
    """Shared with us, it is described to us."""
    looked = Ec2(Told(account=THEIRS)).look(ONE)
    assert (looked.seen, looked.account) == (Seen.UNKNOWN, "")
    assert THEIRS in looked.says


@pytest.mark.parametrize(
    ("state", "seen", "protected"),
    [
        ("InService", Seen.RUNNING, False),
        ("Terminating:Wait", Seen.ENDING, False),
        ("Standby", Seen.RUNNING, True),
        ("Detaching", Seen.RUNNING, True),
    ],
)
def test_what_its_group_does_with_an_instance_is_heard(
    state: str, seen: Seen, protected: bool
) -> None:
    """Held by a hook it runs, by EC2's word; out of the group none would come in its place."""
    held = types.ScalingInstance(instance_id="i-1", group="gpus", zone="us-east-1a", state=state)
    looked = AutoScaling(Told(), held).look(ONE)
    assert (looked.seen, bool(looked.protected)) == (seen, protected)
