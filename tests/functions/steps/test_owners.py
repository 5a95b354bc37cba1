"""Pods whose controller is gone are found without asking for each of them."""

from collections.abc import Iterator

import pytest

from functions.rules import policy
from functions.rules.drain_plan import Owner, Pod
from functions.steps.drain_call import Call
from functions.steps.owners import ONE_BY_ONE, warnings
from infra.local.cluster import builders
from tests.support.simulated import DrainWorld


@pytest.fixture
def world() -> DrainWorld:
    made = DrainWorld()
    made.server.held.add("workloads")
    return made


@pytest.fixture
def call(world: DrainWorld) -> Iterator[Call]:
    drain = policy.default().drain
    with Call(world.cluster, world.clock, drain, 4.0, "groundcrew-system") as made:
        yield made


def made(world: DrainWorld, kind: str, name: str) -> Owner:
    found = world.server.apply(builders.workload(kind, name, replicas=0))
    group = "batch" if kind == "Job" else "apps"
    return Owner(kind=kind, name=name, uid=found["metadata"]["uid"], group=group)


def pod(name: str, owner: Owner | None) -> Pod:
    return Pod(namespace="default", name=name, uid=f"uid-of-{name}", owner=owner)


GONE = Owner(kind="ReplicaSet", name="gone", uid="u-gone", group="apps")


def test_each_controller_that_is_gone_is_one_sentence_with_its_pods(
    world: DrainWorld, call: Call
) -> None:
    there = [made(world, kind, kind.lower()) for kind in ("ReplicaSet", "StatefulSet", "Job")]
    job = Owner(kind="Job", name="train", uid="u-train", group="batch")
    pods = [pod(f"there-{n}", owner) for n, owner in enumerate(there)]
    pods += [pod(f"gone-{n}", GONE) for n in range(3)]
    pods += [pod("train-0", job), pod("bare", None)]
    assert warnings(call, pods) == [
        "default/train-0 belongs to Job train, which is gone: nobody makes a new one",
        "3 pods (default/gone-0, default/gone-1, ...) belong to ReplicaSet gone, which is gone: "
        "nobody makes a new one",
    ]


def test_a_new_controller_of_the_same_name_owns_none_of_its_pods(
    world: DrainWorld, call: Call
) -> None:
    made(world, "ReplicaSet", "gone")
    assert len(warnings(call, [pod("web-0", GONE)])) == 1


def test_kinds_that_we_do_not_know_are_believed(world: DrainWorld, call: Call) -> None:
    kruise = Owner(kind="StatefulSet", name="gone", uid="u", group="apps.kruise.io")
    mpi = Owner(kind="MPIJob", name="gone", uid="u", group="kubeflow.org")
    old = Owner(kind="ReplicationController", name="gone", uid="u")
    assert warnings(call, [pod("a", kruise), pod("b", mpi), pod("c", old)]) == []
    assert world.cluster.requests == {}


def test_what_may_not_be_read_is_believed(world: DrainWorld, call: Call) -> None:
    world.server.faults.fail("get", "/replicasets/", 403, times=9)
    job = Owner(kind="Job", name="train", uid="u-train", group="batch")
    assert len(warnings(call, [pod("web-0", GONE), pod("train-0", job)])) == 1


def test_a_few_controllers_are_asked_for_by_name_once_for_all_nodes(
    world: DrainWorld, call: Call
) -> None:
    owners = [made(world, "ReplicaSet", f"web-{n}") for n in range(ONE_BY_ONE)]
    pods = [pod(f"{o.name}-{n}", o) for o in owners for n in range(5)]
    for _ in range(2):
        assert warnings(call, pods) == []
    assert world.cluster.requests == {"get replicasets": ONE_BY_ONE}


def test_many_controllers_are_listed_once_for_all_nodes(world: DrainWorld, call: Call) -> None:
    owners = [made(world, "ReplicaSet", f"web-{n}") for n in range(ONE_BY_ONE)]
    pods = [pod(o.name, o) for o in owners]
    for _ in range(2):
        assert len(warnings(call, [*pods, pod("gone-0", GONE)])) == 1
    assert world.cluster.requests == {"list replicasets": 1}
