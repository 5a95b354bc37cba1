"""Several nodes, interrupts, dry runs, gangs, and a second time: M1 to R1."""

import signal
import threading
import time
from datetime import UTC, datetime

from functions.rules import keys
from functions.steps import pods as facts
from tests.controlplane.access import eventually
from tests.controlplane.bed import STOPS
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.conformance.rows import shows
from tests.controlplane.conformance.stand import Stand
from tests.controlplane.conformance.webhook import Webhook

SLOW = {STOPS: "10s"}


@shows("M1")
def test_two_nodes_take_the_time_of_one_and_both_are_cordoned_first(stand: Stand) -> None:
    owner = stand.owner("web")
    stand.fill(*(
        stand.pod(f"web-{node}-{n}", node, owner=owner, grace=60, annotations=SLOW)
        for node in (stand.a, stand.b)
        for n in range(3)
    ))  # fmt: skip
    stand.remember()
    ran = stand.run("drain", stand.a, stand.b)
    assert ran.code == 0
    assert ran.seconds < 11 + 2  # kubectl: 20 s; two seconds for a busy machine
    assert [w.split()[0] for w in stand.writes()] == ["patch"] * 2 + ["create"] * 6


@shows("M2")
def test_two_nodes_that_share_a_budget_do_not_break_it(stand: Stand) -> None:
    stand.cluster.create(stand.workload("Deployment", "web", 4), stand.pdb("web", maxUnavailable=1))
    stand.are_ready(4)
    stand.nodes.add("rows-spare", labels={"pool": stand.pool})
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
        ran = stand.run("drain", stand.a, stand.b, "--timeout=60s")
    finally:
        over.set()
        watcher.join()
    assert ran.code == 0, ran.out
    assert min(least) >= 3
    assert stand.names(stand.a) == stand.names(stand.b) == []


@shows("M4")
def test_an_interrupt_leaves_no_request_and_says_how_far_it_is(stand: Stand) -> None:
    owner = stand.owner("web")
    slow = {STOPS: "20s"}
    stand.fill(*(
        stand.pod(f"web-{n}", stand.a, owner=owner, grace=60, annotations=slow) for n in range(5)
    ))  # fmt: skip
    process = stand.start("drain", stand.a)
    eventually(
        lambda: all("deletionTimestamp" in p["metadata"] for p in stand.pods()), "the evictions"
    )
    process.send_signal(signal.SIGINT)
    ran = stand.end(process)
    stand.remember()
    assert ran.code == 130
    assert ran.seconds < 3
    assert "interrupted; 5 pods evicted, 5 left" in ran.out
    assert f"`groundcrew uncordon {stand.a}` gives it back" in ran.out
    assert stand.cordoned(stand.a)
    time.sleep(1)
    assert stand.writes() == []


@shows("M4")
def test_an_interrupt_hears_what_is_due_and_a_second_one_does_not_wait(
    stand: Stand, control_plane: ControlPlane
) -> None:
    owner, answer = stand.owner("web"), threading.Event()
    stand.fill(*(stand.pod(f"web-{node}", node, owner=owner) for node in (stand.a, stand.b)))
    uid = stand.pods(stand.a)[0]["metadata"]["uid"]
    with Webhook(control_plane, "pods/eviction", stand.namespace) as hook:
        hook.ready(
            lambda: stand.api.evict(stand.namespace, f"web-{stand.a}", uid=uid, dry_run=True)
        )
        hook.answer = lambda _: None if answer.wait(4) else (403, "nobody has let it go")
        process = stand.start("drain", stand.a)
        eventually(lambda: hook.asked, "an eviction is under way")
        process.send_signal(signal.SIGINT)
        time.sleep(0.5)
        assert process.poll() is None, "the answer is due"
        answer.set()
        ran = stand.end(process)
        assert (ran.code, "interrupted; 1 pod evicted" in ran.out) == (130, True), ran.out

        answer.clear()
        hook.asked.clear()
        process = stand.start("drain", stand.b)
        eventually(lambda: hook.asked, "an eviction is under way")
        process.send_signal(signal.SIGINT)
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        ran = stand.end(process)
        answer.set()
    assert (ran.code, "ended without waiting for answers" in ran.err) == (130, True), ran.err
    assert ran.seconds < 1


@shows("D1", "D2")
def test_a_dry_run_ends_at_once_names_what_is_in_the_way_and_writes_nothing(stand: Stand) -> None:
    owner = stand.owner("db")
    stand.fill(
        *(stand.pod(f"db-{n}", stand.a, owner=owner, labels={"app": "db"}) for n in range(2)),
        stand.pod("web", stand.a, owner=owner),
    )
    stand.cluster.create(stand.pdb("db", minAvailable=2))
    stand.budget("db", lambda s: True)
    stand.remember()
    for how in ("--dry-run", "--dry-run=client", "--dry-run=server"):
        ran = stand.run("drain", stand.a, how, "-o", "json")
        assert ran.code == 1
        plan = {p["pod"].partition("/")[2]: p for p in ran.nodes[stand.a]["plan"]}
        assert {name: p["action"] for name, p in plan.items()} == {
            "db-0": "blocked", "db-1": "blocked", "web": "evict",
        }  # fmt: skip
        assert f"PodDisruptionBudget {stand.namespace}/db" in plan["db-0"]["why"]
        assert ran.seconds < 3
    dry = {e.request_uri.partition("?")[2] for e in stand.asked("patch", "nodes")}
    assert dry == {"dryRun=All"}
    assert not stand.cordoned(stand.a)
    assert stand.names(stand.a) == ["db-0", "db-1", "web"]
    ran = stand.run("drain", stand.a, "--dry-run=server", "--disable-eviction")
    assert (ran.code, "past their disruption budgets" in ran.err) == (2, True)


@shows("G1")
def test_a_gang_is_warned_on_every_node_and_goes_when_it_is_ready(stand: Stand) -> None:
    owner = stand.owner("mpi")
    job = {**owner, "apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob"}
    stand.fill(
        stand.pod("rank-0", stand.a, owner=job, annotations={STOPS: "0s"}),
        *(stand.pod(f"rank-{n}", stand.b, owner=job) for n in range(1, 4)),
    )
    process = stand.start("drain", stand.a, "--gang-notice=30s")
    eventually(
        lambda: all(keys.EVICT_AFTER in p["metadata"].get("annotations", {}) for p in stand.pods()),
        "all four are warned",
    )
    until = datetime.fromisoformat(stand.pods()[0]["metadata"]["annotations"][keys.EVICT_AFTER])
    assert 20 < (until - datetime.now(UTC)).total_seconds() <= 31
    assert stand.names(stand.a) == ["rank-0"]
    for number in range(4):
        ready = {"metadata": {"annotations": {keys.READY_TO_EVICT: "true"}}}
        stand.patch(stand.pod_path(f"rank-{number}"), ready)
    ran = stand.end(process)
    assert ran.code == 0
    assert ran.seconds < 10
    assert "is warned" in ran.out
    assert stand.names(stand.a) == []
    assert len(stand.names(stand.b)) == 3


@shows("R1")
def test_a_second_drain_writes_nothing(stand: Stand) -> None:
    stand.fill(stand.pod("web", stand.a, owner=stand.owner("web")))
    assert stand.run("drain", stand.a).code == 0
    stand.remember()
    assert stand.run("drain", stand.a).code == 0
    assert stand.writes() == []
