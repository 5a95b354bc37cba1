"""Events about a node on which all that they say is done already.

Each of our own patches makes the source send the node again, with its accusation: in a storm
three of four events are of this kind. What the event itself shows then says that nothing is left
to do, and the cluster need not be asked. Should the node have changed since, that made an event of
its own, and the resync looks at every such node each minute.
"""

from datetime import datetime

import msgspec

from events.cloudevent import CloudEvent
from events.decoding import decode
from events.kubernetes_object import WHOLE_UPDATE
from events.sources import kubernetes_node
from functions.gateways.kubernetes import types
from functions.rules import cordoning, keys, policy
from functions.rules.cordoning import Facts, NodeFacts, Verdict
from functions.steps import mark

_NODE = msgspec.json.Decoder(types.Node)


def already_done(event: CloudEvent, now: datetime) -> Verdict | None:
    """The verdict on the node that ``event`` carries, when nothing is left to do there; None when
    the cluster has to be looked at.

    Judged by the default policy: where another is in force, or a breaker is open, what it would
    do more (raise a severity) waits for the resync, as it does when no event comes.
    """
    if (
        event.type != WHOLE_UPDATE
        or event.extensions.get("kind") != "Node"
        or _LABEL not in event.data
    ):
        return None
    node = decode(_NODE, event.data)
    view = mark.view(node, policy.default())
    if view.state not in (*cordoning.ACTED, cordoning.RETURNING):
        return None
    live = kubernetes_node.notices_of(node)
    plan = cordoning.decide(Facts(nodes=(NodeFacts(view=view, live=live),)), policy.default(), now)
    (verdict,) = plan.verdicts
    if verdict.changed or verdict.decisions:
        return None
    return verdict


_LABEL = keys.STATE.encode()
