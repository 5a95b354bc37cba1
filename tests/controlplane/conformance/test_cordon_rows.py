"""Cordon and uncordon: C1 to C8."""

import json
from datetime import UTC, datetime

from events.notice import Kind, Severity
from functions import cordon
from functions.rules import incidents, keys
from functions.rules.incidents import Cordon, Incident, Record
from tests.controlplane.access import eventually
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.conformance.rows import shows
from tests.controlplane.conformance.stand import DRAINER, EVICT, Stand
from tests.controlplane.conformance.webhook import Webhook
from tests.support.crew import context, ping

UNSCHEDULABLE = "node.kubernetes.io/unschedulable"


@shows("C1", "C8")
def test_a_node_goes_out_of_service_with_its_taint_and_comes_back(stand: Stand) -> None:
    assert stand.run("drain", stand.a).code == 0
    assert stand.cordoned(stand.a)
    assert stand.claim(stand.a) is not None
    eventually(lambda: UNSCHEDULABLE in stand.taints(stand.a), "the taint is put on")
    assert stand.run("uncordon", stand.a).code == 0
    assert not stand.cordoned(stand.a)
    assert stand.claim(stand.a) is None
    eventually(lambda: UNSCHEDULABLE not in stand.taints(stand.a), "the taint comes off")


@shows("C2")
def test_somebody_elses_cordon_is_not_patched_and_stays_theirs(stand: Stand) -> None:
    stand.cordon(stand.a)
    stand.remember()
    ran = stand.run("drain", stand.a)
    assert (ran.code, "by somebody else" in ran.out) == (0, True)
    assert stand.writes() == []
    assert stand.claim(stand.a) is None


@shows("C3")
def test_without_the_right_to_cordon_nothing_is_evicted(stand: Stand) -> None:
    stand.fill(stand.pod("web", stand.a, owner=stand.owner("web")))
    stand.remember()
    with stand.cluster.allowed("groundcrew", *DRAINER, EVICT):
        ran = stand.run("drain", stand.a, identity="groundcrew")
    assert ran.code == 2
    assert f"you may not patch node {stand.a}" in ran.err
    assert stand.writes() == []
    assert not stand.cordoned(stand.a)


@shows("C4")
def test_a_cordon_that_admission_denies_means_no_eviction_and_no_other_cordon(
    stand: Stand, control_plane: ControlPlane
) -> None:
    stand.fill(stand.pod("web", stand.b, owner=stand.owner("web")))
    with Webhook(control_plane, "nodes", stand.a) as hook:
        hook.ready(lambda: stand.api.patch_node(stand.a, [], dry_run=True))
        hook.answer = lambda _: (403, "no cordons on Fridays")
        stand.remember()
        ran = stand.run("drain", stand.b, stand.a)
    assert ran.code == 2
    assert "no cordons on Fridays" in ran.err
    assert stand.evictions() == []
    assert not stand.cordoned(stand.a)
    assert not stand.cordoned(stand.b)


@shows("C5")
def test_a_cordon_that_fails_once_is_made_before_the_first_eviction(
    stand: Stand, control_plane: ControlPlane
) -> None:
    stand.fill(stand.pod("web", stand.a, owner=stand.owner("web")))
    with Webhook(control_plane, "nodes", stand.a) as hook:
        hook.ready(lambda: stand.api.patch_node(stand.a, [], dry_run=True))
        hook.answer = lambda _: (0, "broken") if len(hook.asked) == 1 else None
        stand.remember()
        ran = stand.run("drain", stand.a)
        assert len(hook.asked) == 2
    assert ran.code == 0
    assert stand.writes() == ["patch nodes/", "patch nodes/", "create pods/eviction"]
    assert stand.cordoned(stand.a)


@shows("C7")
def test_what_its_owner_cordoned_stays_cordoned_after_our_incident(stand: Stand) -> None:
    """And a person's cordon on top of ours stays, too."""
    for owner in ("kubectl", "groundcrew drain"):
        now = datetime.now(UTC)
        node = stand.api.get_node(stand.a)
        incident = Incident(
            source="kubernetes.node", check="KernelDeadlock", kind=Kind.FAULT,
            severity=Severity.CORDON, first=now, last=now, boot="an older boot",
        )  # fmt: skip
        theirs = owner == "kubectl"
        record = Record(
            machine=node.provider_id or f"uid:{node.metadata.uid}",
            cordon=Cordon(at=now, theirs=theirs),
            incidents=(incident,),
        )
        stand.cordon(stand.a)
        notes = {keys.INCIDENTS: incidents.encode(record)}
        metadata = {"annotations": notes, "labels": {keys.STATE: "cordon"}}
        stand.patch(f"/api/v1/nodes/{stand.a}", {"metadata": metadata})
        if not theirs:
            assert stand.run("drain", stand.a).code == 0
        over = Record(machine=record.machine, cordon=record.cordon)
        stand.patch(
            f"/api/v1/nodes/{stand.a}",
            {"metadata": {"annotations": {keys.INCIDENTS: incidents.encode(over)}}},
        )
        cordon.handle(ping(), context(stand.transport, namespace=stand.namespace))
        found = stand.node(stand.a)
        assert keys.INCIDENTS not in found["metadata"].get("annotations", {}), json.dumps(found)
        assert stand.cordoned(stand.a)
        stand.run("uncordon", stand.a)
