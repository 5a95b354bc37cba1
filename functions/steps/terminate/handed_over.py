"""Ending a machine by handing it over: an event names it to whoever owns the machines.

They acknowledge by the node annotation `keys.HANDED_OVER`, whose value is the token of the request.
That it is gone shows in its Node, if they had taken it: anybody may delete a Node. Who has not
taken it in the policy's time (``replace.handed_over_within``) is asked once more, and then it is a
person's turn (`rules.replacing.ending`).

A reboot is handed over in the same way, to whoever can: an agent on the node, or who owns it. Its
acknowledgement is another boot ID.
"""

from functions.rules import keys
from functions.rules.replacing import Seen
from functions.steps.terminate.way import Asked, Look, Machine

WANTED = "dev.groundcrew.vm.replacement-wanted"
REBOOT_WANTED = "dev.groundcrew.vm.reboot-wanted"


class HandedOver:
    name = "event"

    def look(self, machine: Machine) -> Look:
        if machine.node is None:
            return Look(seen=Seen.GONE, says="its Node is gone", account="event")
        taken = machine.node.metadata.annotation(keys.HANDED_OVER)
        if taken and taken in (machine.token, *machine.earlier):
            return Look(seen=Seen.ENDING, says="its owner has taken it", account="event")
        return Look(seen=Seen.RUNNING, says="its Node is there", account="event")

    def terminate(self, machine: Machine) -> Asked:
        """The event is the answer of the call: see `functions.replace`."""
        return Asked(done=True, says=f"handed over by {WANTED}")

    def reboot(self, machine: Machine) -> Asked:
        """The same. Nobody says that it was heard, but the machine by booting anew."""
        return Asked(done=True, says=f"handed over by {REBOOT_WANTED}", perhaps=True)
