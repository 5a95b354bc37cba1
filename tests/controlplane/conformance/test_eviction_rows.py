"""Evictions and what is answered to them: E1 to E22."""

import threading
import time
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from functions.gateways.kubernetes import errors
from functions.steps import pods as facts
from tests.controlplane.access import eventually
from tests.controlplane.audit import AuditEntry
from tests.controlplane.bed import STARTS, STOPS
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.conformance.rows import shows
from tests.controlplane.conformance.stand import (
    DRAINER,
    PATCH_NODES,
    Stand,
    stands_still,
    when,
)
from tests.controlplane.conformance.webhook import Webhook

NEVER_READY = {f"{STARTS}/delay": "1h", f"{STARTS}/jitter-delay": "1h"}
BUSY = 4.0
"""Seconds that are granted to a machine which runs other things, too. The bench grants none."""
AT_ONCE = {STOPS: "0s"}


def ready_after(seconds: float) -> dict[str, str]:
    return {f"{STARTS}/{kind}": f"{seconds}s" for kind in ("delay", "jitter-delay")}


@shows("E1")
def test_110_pods_leave_as_fast_as_the_policy_lets_them(stand: Stand) -> None:
    owner = stand.owner("web")
    stand.fill(*(stand.pod(f"web-{n}", stand.a, owner=owner) for n in range(110)))
    stand.remember()
    ran = stand.run("drain", stand.a)
    assert ran.code == 0
    assert ran.seconds < 2 + BUSY  # kubectl: 20 s
    asked = [e for e in stand.control.audit_since(stand.mark_)
             if e.raw.get("userAgent", "").startswith("groundcrew")]  # fmt: skip
    assert len(asked) <= 110 * 1.3


@shows("E1")
def test_the_rate_of_the_policy_is_never_passed(stand: Stand, tmp_path: Path) -> None:
    policy, rate = tmp_path / "policy.yaml", 20
    policy.write_text(f"version: 1\ndrain: {{evictions_per_second: {rate}}}\n")
    where = ("-n", stand.namespace)
    assert stand.run("policy", "apply", str(policy), *where).code == 0
    owner = stand.owner("web")
    stand.fill(*(stand.pod(f"web-{n}", stand.a, owner=owner) for n in range(3 * rate)))
    stand.remember()
    assert stand.run("drain", stand.a, *where).code == 0
    asked = stand.asked("create", "pods", "eviction")
    times = sorted(when(entry, "requestReceivedTimestamp") for entry in asked)
    assert len(times) == 3 * rate
    for first, later in zip(times, times[rate:], strict=False):
        assert (later - first).total_seconds() > 0.8, "0.2 s for the way of the first of them"


@shows("E2")
def test_slow_pods_take_as_long_as_the_slowest(stand: Stand) -> None:
    owner = stand.owner("web")
    stand.fill(*(stand.pod(f"web-{n}", stand.a, owner=owner, grace=30) for n in range(110)))
    ran = stand.run("drain", stand.a)
    assert ran.code == 0
    assert 29.5 < ran.seconds < 33 + BUSY  # kubectl: 60 s


@shows("E3")
def test_a_budget_is_used_as_soon_as_it_allows_and_never_broken(stand: Stand) -> None:
    made = stand.workload("Deployment", "web", 10, annotations=ready_after(2))
    stand.cordon(stand.b)
    stand.cluster.create(made, stand.pdb("web", maxUnavailable=1))
    stand.are_ready(10, stand.a)
    stand.cordon(stand.b, on=False)
    stand.budget("web", lambda s: s.get("disruptionsAllowed") == 1)
    least: list[int] = []
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.1):
            found = [
                facts.pod(p) for p in stand.api.list_pods(namespace=stand.namespace).items or ()
            ]
            least.append(sum(p.ready and p.gone_by is None for p in found))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        stand.remember()
        ran = stand.run("drain", stand.a)
    finally:
        over.set()
        watcher.join()
    assert ran.code == 0
    assert stand.names(stand.a) == []
    assert min(least) >= 9
    assert ran.seconds < 22 + BUSY  # kubectl: nine ticks of five seconds
    assert len(stand.evictions()) <= 20


@shows("E4", "S31")
def test_a_budget_that_holds_is_named_at_the_deadline_and_costs_no_requests(stand: Stand) -> None:
    owner = stand.owner("db")
    labels = {"app": "db"}
    stand.fill(
        *(stand.pod(f"db-{n}", stand.a, owner=owner, labels=labels) for n in range(9)),
        stand.pod("sick", stand.b, owner=owner, labels=labels, annotations=NEVER_READY),
        ready=9,
    )
    stand.running("sick", ready=False)
    stand.cluster.create(stand.pdb("db", minAvailable=9))
    stand.budget("db", lambda s: s.get("expectedPods") == 10)
    stand.remember()
    ran = stand.run("drain", stand.a, "--timeout=3s")
    assert ran.code == 1
    assert ran.seconds <= 3.5 + 0.5
    assert f"PodDisruptionBudget {stand.namespace}/db" in ran.out
    assert stand.evictions() == []
    sent = len(stand.asked("list", "poddisruptionbudgets"))
    assert sent <= 4


@shows("E6")
def test_two_budgets_over_one_pod_are_both_named_and_the_others_go(stand: Stand) -> None:
    owner = stand.owner("web")
    stand.cluster.create(
        stand.pdb("one", maxUnavailable=1) | {},
        {**stand.pdb("two", maxUnavailable=1)},
    )
    for name in ("one", "two"):
        path = f"/apis/policy/v1/namespaces/{stand.namespace}/poddisruptionbudgets/{name}"
        stand.patch(path, {"spec": {"selector": {"matchLabels": {"app": "db"}}}})
    stand.fill(
        stand.pod("db", stand.a, owner=owner, labels={"app": "db"}),
        stand.pod("web", stand.a, owner=owner),
    )
    stand.remember()
    ran = stand.run("drain", stand.a, "--timeout=20s")
    assert ran.code == 1
    assert f"{stand.namespace}/one, {stand.namespace}/two" in ran.out
    assert stand.evictions() == ["web"]
    assert stand.names(stand.a) == ["db"]


@shows("E8", "E9")
def test_an_app_that_is_not_healthy_is_named_or_evicted_as_its_budget_says(stand: Stand) -> None:
    owner = stand.owner("db")
    stand.create([
        stand.pod(f"db-{n}", stand.a, owner=owner, labels={"app": "db"}, annotations=NEVER_READY)
        for n in range(2)
    ])  # fmt: skip
    for number in range(2):
        stand.running(f"db-{number}", ready=False)
    stand.cluster.create(stand.pdb("db", minAvailable=1))
    stand.budget("db", lambda s: s["desiredHealthy"] == 1)
    ran = stand.run("drain", stand.a, "--timeout=2s")
    assert ran.code == 1
    assert "its pods are unhealthy" in ran.out
    path = f"/apis/policy/v1/namespaces/{stand.namespace}/poddisruptionbudgets/db"
    stand.patch(path, {"spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}})
    assert stand.run("drain", stand.a, "--timeout=20s").code == 0
    assert stand.names(stand.a) == []


@shows("E10", "E11", "E12")
def test_what_is_ending_or_never_began_needs_no_budget_and_no_grace_is_sent(stand: Stand) -> None:
    owner = stand.owner("db")
    labels = {"app": "db"}
    slow = {STOPS: "2s"}
    stand.fill(
        stand.pod("pending", stand.a, owner=owner, labels=labels, annotations=NEVER_READY),
        stand.pod("ending", stand.a, owner=owner, labels=labels, grace=45, annotations=slow),
        stand.pod("web", stand.a, owner=owner, grace=45, annotations=AT_ONCE),
        ready=2,
    )
    stand.cluster.create(stand.pdb("db", minAvailable=2))
    stand.budget("db", lambda s: True)
    options = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 40}
    stand.send("DELETE", stand.pod_path("ending"), options)
    stand.remember()
    ran = stand.run("drain", stand.a)
    assert ran.code == 0
    assert sorted(stand.evictions()) == ["pending", "web"]
    bodies = [e.body["deleteOptions"] for e in stand.asked("create", "pods", "eviction")]
    assert not any("gracePeriodSeconds" in body for body in bodies)
    assert stand.asked("delete", "pods") == []


@shows("E13")
def test_a_pod_that_moves_while_its_budget_holds_it_is_not_followed(stand: Stand) -> None:
    stand.cordon(stand.b)
    stand.cluster.create(stand.workload("StatefulSet", "db", 1))
    stand.are_ready(1, stand.a)
    stand.create([
        stand.pod("sick", stand.b, owner=stand.owner("x"), labels={"app": "db"},
                  annotations=NEVER_READY),
    ])  # fmt: skip
    stand.running("sick", ready=False)
    stand.cluster.create(stand.pdb("db", minAvailable=1))
    stand.budget("db", lambda s: s["disruptionsAllowed"] == 0)
    stand.cordon(stand.b, on=False)
    stand.remember()
    process = stand.start("drain", stand.a, "--timeout=40s")
    eventually(lambda: stand.cordoned(stand.a), "the cordon")
    time.sleep(1.5)
    stand.cluster.kubectl(
        "delete", "pod", "db-0", "-n", stand.namespace, "--force", "--grace-period=0"
    )
    ran = stand.end(process)
    assert ran.code == 0, ran.out
    stand.are_ready(1, stand.b)
    assert "db-0" in stand.names(stand.b)
    moved = next(p for p in stand.pods(stand.b) if p["metadata"]["name"] == "db-0")
    assert "deletionTimestamp" not in moved["metadata"]
    assert stand.evictions() == []


@shows("E14")
def test_a_pod_that_is_back_elsewhere_at_once_does_not_hold_the_drain(stand: Stand) -> None:
    stand.cordon(stand.b)
    stand.cluster.create(stand.workload("StatefulSet", "db", 1, grace=0))
    slow = {STOPS: "3s"}
    other = stand.pod("slow", stand.a, owner=stand.owner("x"), grace=60, annotations=slow)
    stand.fill(other, ready=0)
    stand.are_ready(2, stand.a)
    stand.cordon(stand.b, on=False)
    stand.remember()
    process = stand.start("drain", stand.a)
    stand.are_ready(1, stand.b)
    assert process.poll() is None, "it is back before the drain is over"
    (back,) = stand.pods(stand.b)
    ran = stand.end(process)
    assert (ran.code, stand.names(stand.a)) == (0, [])
    assert sorted(stand.evictions()) == ["db-0", "slow"]
    assert [pod["metadata"]["uid"] for pod in stand.pods(stand.b)] == [back["metadata"]["uid"]]


@shows("E15")
def test_an_eviction_of_a_pod_that_was_replaced_leaves_the_new_one(stand: Stand) -> None:
    """And costs its budget a disruption: the API server takes it before it looks at the UID."""
    owner = stand.owner("db")
    stand.fill(*(
        stand.pod(name, stand.a, owner=owner, labels={"app": "db"}) for name in ("db-0", "db-1")
    ))  # fmt: skip
    stand.cluster.create(stand.pdb("db", minAvailable=1))
    stand.budget("db", lambda s: s.get("disruptionsAllowed") == 1)
    with pytest.raises(errors.Conflict, match="UID in the precondition"):
        stand.api.evict(stand.namespace, "db-0", uid="00000000-0000-4000-8000-000000000000")
    assert all("deletionTimestamp" not in pod["metadata"] for pod in stand.pods())
    stand.budget("db", lambda s: "db-0" in s.get("disruptedPods", {}))
    stand.budget("db", lambda s: s["disruptionsAllowed"] == 0)


@shows("E16")
def test_pods_of_a_namespace_that_is_ending_are_waited_for(
    stand: Stand, control_plane: ControlPlane
) -> None:
    slow = {STOPS: "1s"}
    stand.fill(stand.pod("web", stand.a, owner=stand.owner("w"), grace=30, annotations=slow))
    stand.remember()
    with stands_still(control_plane, "kube-controller-manager"):  # which would end its pods
        stand.cluster.kubectl("delete", "namespace", stand.namespace, "--wait=false")
        process = stand.start("drain", stand.a, "--timeout=30s")
        eventually(stand.evictions, "the eviction")
    ran = stand.end(process)
    assert ran.code == 0, ran.out
    assert stand.names(stand.a) == []
    refused = stand.asked("create", "pods", "eviction")
    assert {entry.code for entry in refused} == {403}, "because its namespace is being terminated"
    assert len(refused) <= 3


@pytest.mark.parametrize(
    ("deny", "times"),
    [
        pytest.param((0, "broken"), 1, id="500"),
        pytest.param((403, "the operator is moving it"), 3, id="403"),
        pytest.param((429, "the migration has begun"), 3, id="429"),
        pytest.param((-1, ""), 1, id="EOF"),
    ],
)
@shows("E17", "E19", "E20", "S22")
def test_what_a_webhook_refuses_for_a_while_is_tried_again(
    stand: Stand, control_plane: ControlPlane, deny: tuple[int, str], times: int
) -> None:
    stand.fill(stand.pod("web", stand.a, owner=stand.owner("web")))
    uid = stand.pods()[0]["metadata"]["uid"]
    with Webhook(control_plane, "pods/eviction", stand.namespace) as hook:
        hook.ready(lambda: stand.api.evict(stand.namespace, "web", uid=uid, dry_run=True))
        hook.answer = lambda _: deny if len(hook.asked) <= times else None
        ran = stand.run("drain", stand.a, "--timeout=60s")
        assert ran.code == 0, ran.out
        assert len(hook.asked) == times + 1
    assert ran.seconds < 12


@shows("E19")
def test_what_a_webhook_refuses_to_the_end_is_told_in_its_own_words(
    stand: Stand, control_plane: ControlPlane
) -> None:
    stand.fill(stand.pod("web", stand.a, owner=stand.owner("web")))
    uid = stand.pods()[0]["metadata"]["uid"]
    with Webhook(control_plane, "pods/eviction", stand.namespace) as hook:
        hook.ready(lambda: stand.api.evict(stand.namespace, "web", uid=uid, dry_run=True))
        hook.answer = lambda _: (403, "ask the storage team")
        ran = stand.run("drain", stand.a, "--timeout=2s")
    assert (ran.code, "ask the storage team" in ran.out) == (1, True)


@shows("E21")
def test_an_api_server_that_asks_for_patience_gets_it(stand: Stand) -> None:
    """A level with no seats runs one request at a time, and rejects those beside it."""
    owner = stand.owner("web")
    stand.fill(*(stand.pod(f"web-{n}", stand.a, owner=owner) for n in range(12)))
    name = f"reject-{stand.namespace}"
    api = {"apiVersion": "flowcontrol.apiserver.k8s.io/v1"}
    user = stand.cluster.username("groundcrew")
    stand.cluster.create(
        {
            **api, "kind": "PriorityLevelConfiguration", "metadata": {"name": name},
            "spec": {"type": "Limited", "limited": {
                "nominalConcurrencyShares": 0, "lendablePercent": 0,
                "borrowingLimitPercent": 0, "limitResponse": {"type": "Reject"},
            }},
        },
        {
            **api, "kind": "FlowSchema", "metadata": {"name": name},
            "spec": {
                "priorityLevelConfiguration": {"name": name}, "matchingPrecedence": 50,
                "rules": [{
                    "subjects": [{"kind": "User", "user": {"name": user}}],
                    "resourceRules": [{
                        "verbs": ["create"], "apiGroups": [""], "resources": ["pods/eviction"],
                        "namespaces": ["*"],
                    }],
                }],
            },
        },
    )  # fmt: skip
    everything: dict[str, Any] = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
    with stand.cluster.allowed("groundcrew", everything):
        try:
            time.sleep(1.5)  # the API server looks at it once a second
            stand.remember()
            ran = stand.run("drain", stand.a, "--timeout=60s", identity="groundcrew")
        finally:
            stand.cluster.kubectl("delete", "flowschema,prioritylevelconfiguration", name,
                                  "--ignore-not-found")  # fmt: skip
    assert ran.code == 0, ran.out
    tries: dict[str, list[AuditEntry]] = defaultdict(list)
    for entry in stand.asked("create", "pods", "eviction"):
        tries[entry.name].append(entry)
    pauses = [
        (when(after, "requestReceivedTimestamp") - when(before, "stageTimestamp")).total_seconds()
        for of_pod in tries.values()
        for before, after in pairwise(of_pod)
        if before.code == 429
    ]
    assert pauses, "no eviction was rejected"
    assert min(pauses) > 0.95, "a Retry-After of one second"


@shows("E22")
def test_without_the_right_to_evict_the_node_stays_in_service(stand: Stand) -> None:
    stand.fill(stand.pod("web", stand.a, owner=stand.owner("web")))
    stand.remember()
    with stand.cluster.allowed("groundcrew", *DRAINER, PATCH_NODES):
        ran = stand.run("drain", stand.a, identity="groundcrew")
    assert ran.code == 2
    assert f"create pods/eviction in namespace {stand.namespace}" in ran.err
    assert stand.writes() == []
    assert not stand.cordoned(stand.a)
