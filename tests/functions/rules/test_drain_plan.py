"""The drain plan: one verdict a pod, and what may never happen."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.rules import drain_plan, keys, policy
from functions.rules.drain_plan import Around, Budget, Owner, Pod, Step, Verdict, plan
from functions.rules.policy import Drain
from functions.rules.selectors import Requirement, Selector

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)
DRAIN = policy.default().drain
WEB = Owner(kind="ReplicaSet", name="web", uid="web", group="apps")
AGENT = Owner(kind="DaemonSet", name="agent", uid="agent", group="apps")
EVERYTHING = Selector()


def pod(**fields: Any) -> Pod:
    made: dict[str, Any] = {
        "namespace": "shop", "name": "web-1", "uid": "u1", "node": "n1", "owner": WEB,
    }  # fmt: skip
    return Pod(**{**made, **fields})


def budget(name: str = "web", **fields: Any) -> Budget:
    made: dict[str, Any] = {
        "namespace": "shop", "name": name, "selector": EVERYTHING,
        "allowed": 1, "healthy": 3, "desired": 2, "expected": 3,
    }  # fmt: skip
    return Budget(**{**made, **fields})


def one(found: Pod, drain: Drain = DRAIN, **around: Any) -> Step:
    [step] = plan([found], Around(node="n1", **around), drain, NOW)
    return step


def changed(**fields: Any) -> Drain:
    return msgspec.structs.replace(DRAIN, **fields)


owners = st.sampled_from(
    [
        None,
        WEB,
        AGENT,
        Owner("DaemonSet", "kruise", "k", "apps.kruise.io"),
        Owner("DaemonSet", "gone", "g", "apps"),
        Owner("Job", "train", "t", "batch"),
        Owner("Node", "n1", "n1", ""),
    ]
)
pods = st.builds(
    Pod,
    namespace=st.sampled_from(["shop", "train", "groundcrew-system"]),
    name=st.sampled_from(["a", "b", "c"]),
    uid=st.uuids().map(str),
    node=st.sampled_from(["n1", "n2", ""]),
    labels=st.dictionaries(
        st.sampled_from(["app", keys.GANG, keys.BALLOON]), st.sampled_from(["x", "y"])
    ),
    owner=owners,
    mirror=st.booleans(),
    phase=st.sampled_from(["Pending", "Running", "Succeeded", "Failed", "Unknown"]),
    ready=st.booleans(),
    priority=st.sampled_from([-10, 0, 1000, 2_000_000_000]),
    empty_dirs=st.sampled_from([(), ("cache",)]),
    finalizers=st.sampled_from([(), ("example.com/x",)]),
    gone_by=st.sampled_from([None, NOW - timedelta(hours=1), NOW + timedelta(seconds=5)]),
    pod_group=st.sampled_from(["", "g"]),
)
budgets = st.builds(
    Budget,
    namespace=st.sampled_from(["shop", "train"]),
    name=st.sampled_from(["one", "two"]),
    selector=st.sampled_from([None, EVERYTHING, Selector(labels={"app": "x"})]),
    allowed=st.integers(-1, 2),
    healthy=st.integers(0, 3),
    desired=st.integers(0, 3),
    expected=st.integers(0, 3),
    evicts_unhealthy=st.booleans(),
)
arounds = st.builds(
    Around,
    node=st.just("n1"),
    daemon_sets=st.sampled_from([None, frozenset(), frozenset({"shop/agent", "train/agent"})]),
    budgets=st.lists(budgets, max_size=3, unique_by=lambda b: b.key).map(tuple),
    kubelet_lost=st.booleans(),
    own_namespace=st.just("groundcrew-system"),
    notice=st.dictionaries(
        st.sampled_from(["gang shop/x", "PodGroup shop/g"]),
        st.sampled_from([NOW, NOW + timedelta(minutes=5)]),
    ),
    returned=st.dictionaries(st.sampled_from(["web", "t"]), st.integers(0, 3)),
    last_resort=st.booleans(),
)
drains = st.builds(
    changed,
    bare_pods=st.sampled_from(["block", "evict"]),
    empty_dir=st.sampled_from(["evict", "block"]),
)


@given(st.lists(pods, max_size=8, unique_by=lambda p: p.uid), arounds, drains)
def test_what_holds_for_every_plan(found: list[Pod], around: Around, drain: Drain) -> None:
    steps = plan(found, around, drain, NOW)
    here = {p.uid for p in found if p.node == "n1"}
    assert sorted(s.pod.uid for s in steps) == sorted(here), "each pod of the node, once"
    assert [s.stage for s in steps] == sorted(s.stage for s in steps)
    for step in steps:
        asks = step.verdict in (Verdict.EVICT, Verdict.DELETE)
        if step.pod.mirror or keys.BALLOON in step.pod.labels:
            assert step.verdict is Verdict.IGNORE
        if step.pod.owner == AGENT and not step.pod.finished and around.daemon_sets is None:
            assert step.verdict is Verdict.IGNORE
        if step.pod.gone_by is not None:
            assert not asks, "nobody is asked to leave twice"
        if step.verdict is Verdict.DELETE:
            assert around.last_resort, "past a budget only at a deadline"
        if asks and not around.last_resort and not step.pod.finished:
            assert len(step.budgets) <= 1
            if step.pod.owner is None:
                assert drain.bare_pods == "evict"
            if step.gang:
                assert around.notice[step.gang] <= NOW, "no member goes unwarned"
        if step.verdict in (Verdict.BLOCKED, Verdict.IGNORE, Verdict.HELD, Verdict.DELETE):
            assert step.why, "whatever is not simply evicted is explained"
        if step.pod.namespace == "groundcrew-system":
            assert step.stage == 2


@given(st.lists(pods, max_size=6, unique_by=lambda p: p.uid), arounds, drains)
def test_the_plan_does_not_depend_on_the_order_of_the_list(
    found: list[Pod], around: Around, drain: Drain
) -> None:
    def verdicts(pods: list[Pod]) -> dict[str, Verdict]:
        return {s.pod.uid: s.verdict for s in plan(pods, around, drain, NOW)}

    assert verdicts(found) == verdicts(found[::-1])


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (pod(mirror=True), "static pod"),
        (pod(owner=Owner("Node", "n1")), "static pod"),
        (pod(labels={keys.BALLOON: "gpu"}), "balloon"),
        (pod(owner=AGENT), "DaemonSet shop/agent"),
        (pod(owner=Owner("DaemonSet", "kruise", group="apps.kruise.io")), "DaemonSet shop/kruise"),
    ],
)
def test_what_is_no_workload_is_ignored(found: Pod, why: str) -> None:
    step = one(found, daemon_sets=frozenset({"shop/agent"}))
    assert step.verdict is Verdict.IGNORE
    assert why in step.why


def test_the_pod_of_a_daemon_set_that_is_gone_is_bare() -> None:
    step = one(pod(owner=AGENT), daemon_sets=frozenset())
    assert step.verdict is Verdict.BLOCKED
    assert "DaemonSet agent is gone" in step.why


@pytest.mark.parametrize("owner", [None, AGENT])
def test_finished_pods_go_whoever_made_them(owner: Owner | None) -> None:
    found = pod(owner=owner, phase="Succeeded", empty_dirs=("cache",))
    strict = changed(empty_dir="block")
    assert one(found, strict, budgets=(budget("a"), budget("b"))).verdict is Verdict.EVICT


def test_bare_pods_and_empty_dirs_are_as_the_policy_says() -> None:
    assert one(pod(owner=None)).verdict is Verdict.BLOCKED
    assert one(pod(owner=None), changed(bare_pods="evict")).verdict is Verdict.EVICT
    assert one(pod(empty_dirs=("cache",))).verdict is Verdict.EVICT
    assert "cache" in one(pod(empty_dirs=("cache",)), changed(empty_dir="block")).why


def test_two_budgets_are_named_and_block_for_good() -> None:
    step = one(pod(), budgets=(budget("b"), budget("a")))
    assert step.verdict is Verdict.BLOCKED
    assert step.why.endswith("shop/a, shop/b")


@pytest.mark.parametrize(("desired", "expected"), [(1, 1), (3, 3)])
def test_a_budget_that_can_never_allow_it_is_found_before_it_is_asked(
    desired: int, expected: int
) -> None:
    never = budget(allowed=0, healthy=expected, desired=desired, expected=expected)
    step = one(pod(), budgets=(never,))
    assert step.verdict is Verdict.BLOCKED
    assert "can never allow it" in step.why


def test_a_budget_that_has_nothing_left_now_is_no_lasting_blocker() -> None:
    step = one(pod(), budgets=(budget(allowed=0, healthy=2),))
    assert (step.verdict, step.budgets) == (Verdict.EVICT, ("shop/web",))


def test_a_budget_of_unhealthy_pods_says_so() -> None:
    assert "unhealthy" in budget(allowed=0, healthy=1).state()


@pytest.mark.parametrize(
    ("found", "rule"),
    [
        (pod(phase="Pending"), budget(allowed=0)),
        (pod(ready=False), budget(allowed=0, healthy=0, evicts_unhealthy=True)),
        (pod(ready=False), budget(allowed=0, healthy=2)),
    ],
)
def test_pods_that_no_budget_protects_are_not_counted_against_one(found: Pod, rule: Budget) -> None:
    assert one(found, budgets=(rule,)).budgets == ()


def test_budgets_of_other_namespaces_and_without_a_selector_do_not_count() -> None:
    others = (budget(namespace="train"), budget(selector=None))
    assert one(pod(), budgets=others).budgets == ()


def test_the_last_resort_deletes_what_is_blocked_and_evicts_the_rest() -> None:
    assert one(pod(owner=None), last_resort=True).verdict is Verdict.DELETE
    assert one(pod(), last_resort=True, budgets=(budget(allowed=0),)).verdict is Verdict.DELETE
    assert one(pod(), last_resort=True, budgets=(budget(),)).verdict is Verdict.EVICT
    assert one(pod(labels={keys.GANG: "x"}), last_resort=True).verdict is Verdict.EVICT
    assert one(pod(owner=AGENT), last_resort=True).verdict is Verdict.IGNORE


def test_what_comes_back_to_the_node_is_not_evicted_for_ever() -> None:
    assert one(pod(), returned={"web": 1}).verdict is Verdict.EVICT
    for last_resort in (False, True):
        step = one(pod(), returned={"web": 2}, last_resort=last_resort)
        assert step.verdict is Verdict.BLOCKED
        assert "puts its pods back" in step.why


@pytest.mark.parametrize(
    ("found", "gang"),
    [
        (pod(pod_group="g", labels={keys.GANG: "x"}), "PodGroup shop/g"),
        (pod(labels={keys.GANG: "x"}), "gang shop/x"),
        (pod(labels={"jobset.sigs.k8s.io/jobset-name": "s"}), "JobSet shop/s"),
        (pod(owner=Owner("Job", "train")), "Job shop/train"),
        (pod(owner=Owner("MPIJob", "train")), "MPIJob shop/train"),
        (pod(owner=Owner("Job", "train"), phase="Succeeded"), ""),
        (pod(), ""),
    ],
)
def test_who_belongs_to_which_gang(found: Pod, gang: str) -> None:
    assert drain_plan.gang_of(found) == gang


def test_a_gang_goes_when_its_notice_is_over_and_not_before() -> None:
    member = pod(labels={keys.GANG: "x"})
    later = NOW + timedelta(minutes=1)
    assert one(member).verdict is Verdict.HELD
    held = one(member, notice={"gang shop/x": later})
    assert (held.verdict, held.until) == (Verdict.HELD, later)
    assert one(member, notice={"gang shop/x": NOW}).verdict is Verdict.EVICT


def test_why_a_pod_is_still_there_is_said() -> None:
    around = Around(node="n1")
    late = pod(gone_by=NOW - timedelta(minutes=1))
    assert drain_plan.overdue(pod(gone_by=NOW), around, NOW) == ""
    assert "containers" in drain_plan.overdue(late, around, NOW)
    held = msgspec.structs.replace(late, finalizers=("example.com/x",))
    assert "example.com/x" in drain_plan.overdue(held, around, NOW)
    lost = Around(node="n1", kubelet_lost=True)
    waiting = pod(gone_by=NOW + timedelta(hours=1))
    assert "fence" in drain_plan.overdue(waiting, lost, NOW)


def test_workloads_go_before_what_the_system_needs_and_we_go_last() -> None:
    steps = plan(
        [
            pod(uid="own", namespace="groundcrew-system", priority=2_000_000_000),
            pod(uid="dns", priority=2_000_000_000),
            pod(uid="high", priority=1000),
            pod(uid="low"),
        ],
        Around(node="n1", own_namespace="groundcrew-system"),
        DRAIN,
        NOW,
    )
    assert [s.pod.uid for s in steps] == ["low", "high", "dns", "own"]


@pytest.mark.parametrize(
    ("requirement", "labels", "holds"),
    [
        (Requirement("a", "In", ("x",)), {"a": "x"}, True),
        (Requirement("a", "In", ("x",)), {}, False),
        (Requirement("a", "NotIn", ("x",)), {}, True),
        (Requirement("a", "NotIn", ("x",)), {"a": "x"}, False),
        (Requirement("a", "Exists"), {"a": ""}, True),
        (Requirement("a", "DoesNotExist"), {"a": ""}, False),
        (Requirement("a", "Unheard"), {"a": ""}, False),
    ],
)
def test_selectors_read_requirements_as_kubernetes_does(
    requirement: Requirement, labels: dict[str, str], holds: bool
) -> None:
    assert Selector(requirements=(requirement,)).matches(labels) is holds
    assert Selector().matches(labels)
