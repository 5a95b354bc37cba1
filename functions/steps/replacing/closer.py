"""The closer look, at a machine for which all else speaks: its pods, its volumes, other Nodes that
claim it, and the cloud's own word."""

from dataclasses import replace

from functions.gateways.kubernetes import errors, types
from functions.rules import keys
from functions.rules.replacing import Closer, MachineFacts
from functions.rules.replacing.book import Phase
from functions.steps import pods, terminate
from functions.steps.replacing import beside, gather
from functions.steps.replacing.crew import Crew


def look(
    crew: Crew, one: MachineFacts, node: types.Node | None, *, cloud_only: bool = False
) -> MachineFacts:
    """``one`` with what a closer look shows. What cannot be read is said, and holds."""
    machine = subject(one, node)
    way = terminate.choose(machine, _wanted(crew, one, node), crew.aws, crew.cluster)
    seen = way.look(machine)
    closer = Closer(
        seen=seen.seen,
        says=seen.says,
        way=way.name,
        host=seen.host,
        account=seen.account,
        protected=seen.protected,
        others=seen.others,
        reserved=seen.reserved,
    )
    if node is not None and not cloud_only:
        closer = replace(
            closer,
            pods=pods.work_on(crew.cluster, node.name),
            volumes=_volumes(crew, node),
            twins=_twins(crew, node),
            beside=beside.of_cluster(crew.cluster, node),
        )
        closer = replace(closer, spares=spares(crew, replace(one, closer=closer)))
    return replace(one, closer=closer)


def subject(one: MachineFacts, node: types.Node | None, token: str = "") -> terminate.Machine:
    intent = one.entry.intent if one.entry else None
    return terminate.Machine(
        provider_id=one.machine,
        name=node.name if node else one.entry.node if one.entry else "",
        node=node,
        token=token or (intent.token if intent else ""),
        earlier=intent.earlier if intent else (),
    )


def _wanted(crew: Crew, one: MachineFacts, node: types.Node | None) -> str:
    """The policy's word; where its Node is gone, which would show the way, the way it was asked,
    or that the Node showed."""
    wanted, entry = crew.policy.way_of(one.pool), one.entry
    if wanted != "auto" or node is not None or entry is None:
        return wanted
    if entry.intent and entry.intent.way in terminate.OF_THE_NODE:
        return entry.intent.way
    return entry.owner or wanted


def _volumes(crew: Crew, node: types.Node) -> tuple[str, ...]:
    try:
        found = crew.cluster.list_attachments()
    except errors.Forbidden:
        return ("a volume that we may not see (list volumeattachments)",)
    return tuple(
        sorted(
            a.spec.source.persistent_volume_name or a.metadata.name
            for a in found
            if a.spec.node_name == node.name
        )
    )


def spares(crew: Crew, one: MachineFacts) -> tuple[str, ...]:
    """Idle nodes of its pool that are kept for this, less those that stand in for others by now.
    Asked for where its capacity may not come back."""
    told = one.closer.reserved if one.closer else ""
    if not (one.reserved or told or crew.policy.is_reserved(one.pool)):
        return ()
    idle = sorted(
        node.name
        for node in crew.cluster.list_nodes(f"{keys.SPARE}=true")
        if gather.serves(crew, node, one.pool) and not pods.work_on(crew.cluster, node.name)
    )
    entries = crew.books[one.pool].machines.items() if one.pool in crew.books else ()
    taken = sum(e.phase in (Phase.ENDING, Phase.ENDED) for m, e in entries if m != one.machine)
    return tuple(idle[taken:])


def _twins(crew: Crew, node: types.Node) -> tuple[str, ...]:
    """Other Nodes that claim the same machine."""
    return tuple(
        name
        for name, provider_id, uid in crew.fleet
        if provider_id == node.provider_id and uid != node.metadata.uid
    )
