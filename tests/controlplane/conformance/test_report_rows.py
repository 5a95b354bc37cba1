"""What people reported of other drains: S4 to S42."""

import threading
import time
from typing import Any

from tests.controlplane.access import eventually
from tests.controlplane.bed import STARTS, STOPS
from tests.controlplane.conformance.rows import shows
from tests.controlplane.conformance.stand import Stand

TOLERATES = [{"operator": "Exists"}]


@shows("S4")
def test_a_budget_that_frees_after_a_while_is_used_at_once(stand: Stand) -> None:
    owner = stand.owner("db")
    labels = {"app": "db"}
    never = {f"{STARTS}/delay": "1h", f"{STARTS}/jitter-delay": "1h"}
    stand.fill(
        stand.pod("db", stand.a, owner=owner, labels=labels),
        stand.pod("sick", stand.b, owner=owner, labels=labels, annotations=never),
        ready=1,
    )
    stand.running("sick", ready=False)
    stand.cluster.create(stand.pdb("db", minAvailable=1) | {})
    stand.budget("db", lambda s: s["disruptionsAllowed"] == 0)
    well = threading.Timer(3.0, lambda: stand.running("sick", ready=True))
    well.start()
    before = time.monotonic()
    ran = stand.run("drain", stand.a, "--timeout=30s")
    well.join()
    assert ran.code == 0, ran.out
    assert 2.9 <= time.monotonic() - before < 5.5


@shows("S5")
def test_a_drain_is_over_when_the_last_pod_is_gone_and_not_when_it_was_asked(stand: Stand) -> None:
    owner, slow = stand.owner("web"), {STOPS: "3s"}
    stand.fill(stand.pod("web", stand.a, owner=owner, grace=60, annotations=slow))
    ran = stand.run("drain", stand.a)
    assert (ran.code, stand.names(stand.a)) == (0, [])
    assert ran.seconds > 2.9


@shows("S14")
def test_replacements_that_find_no_node_are_not_waited_for(stand: Stand) -> None:
    stand.cordon(stand.b)
    stand.cluster.create(stand.workload("Deployment", "web", 3))
    stand.are_ready(3, stand.a)
    ran = stand.run("drain", stand.a, "--timeout=30s")
    assert (ran.code, "3 pods evicted" in ran.out) == (0, True)
    assert ran.seconds < 10
    eventually(
        lambda: sum(not p["spec"].get("nodeName") for p in stand.pods()) == 3,
        "all three replacements are there, and on no node",
    )


@shows("S15")
def test_what_can_never_succeed_is_said_in_seconds(stand: Stand) -> None:
    stand.cordon(stand.b)
    stand.cluster.create(stand.workload("Deployment", "db", 1), stand.pdb("db", minAvailable=1))
    stand.are_ready(1, stand.a)
    stand.budget("db", lambda s: s.get("currentHealthy") == 1)
    stand.remember()
    ran = stand.run("drain", stand.a, "--timeout=60s")
    assert ran.code == 1
    assert "can never allow it: 1 of its 1 pods must stay" in ran.out
    assert ran.seconds < 5
    assert stand.evictions() == []


@shows("S18", "S19")
def test_pods_that_are_put_back_are_given_up_and_their_owner_named(stand: Stand) -> None:
    stand.cluster.create(
        stand.workload("Deployment", "back", 1, tolerations=TOLERATES,
                       nodeSelector={"kubernetes.io/hostname": stand.a, "pool": stand.pool}),
        stand.workload("Deployment", "pinned", 1, nodeName=stand.a),
    )  # fmt: skip
    hostname = {"metadata": {"labels": {"kubernetes.io/hostname": stand.a}}}
    stand.patch(f"/api/v1/nodes/{stand.a}", hostname)
    stand.are_ready(2, stand.a)
    stand.remember()
    ran = stand.run("drain", stand.a, "--timeout=60s")
    assert ran.code == 1
    told = ran.out[ran.out.index("not drained") :]
    assert told.count("puts its pods back on this node") == 2
    assert ran.seconds < 30
    assert len(stand.evictions()) <= 2 * 4


@shows("S20")
def test_a_finished_pod_of_a_job_needs_no_force(stand: Stand) -> None:
    stand.cordon(stand.b)
    stand.cluster.create(_job(stand, "done"))
    stand.are_ready(1, stand.a)
    stand.finish(stand.names(stand.a)[0])
    stand.cordon(stand.b, on=False)
    ran = stand.run("drain", stand.a, "--timeout=30s")
    assert (ran.code, stand.names(stand.a)) == (0, []), ran.out
    assert ran.seconds < 10


@shows("S37")
def test_a_job_that_waits_before_it_tries_again_is_not_waited_for(
    stand: Stand,
) -> None:
    made = _job(stand, "train")
    ignore = {"action": "Ignore", "onPodConditions": [
        {"type": "DisruptionTarget", "status": "True"},
    ]}  # fmt: skip
    made["spec"]["podFailurePolicy"] = {"rules": [ignore]}
    stand.cordon(stand.b)
    stand.cluster.create(made)
    stand.are_ready(1, stand.a)
    stand.cordon(stand.b, on=False)
    stand.remember()
    ran = stand.run("drain", stand.a, "--timeout=30s")
    assert (ran.code, stand.names(stand.a)) == (0, []), ran.out
    assert ran.seconds < 5, "the Job makes a new pod after up to forty"
    # Only an eviction puts the condition on the pod that the Job forgives.
    assert len(stand.evictions()) == 1


def _job(stand: Stand, name: str) -> dict[str, Any]:
    template = stand.workload("Deployment", name, 1)["spec"]["template"]
    template["spec"]["restartPolicy"] = "Never"
    return {
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": name, "namespace": stand.namespace},
        "spec": {"template": template, "backoffLimit": 0},
    }  # fmt: skip


@shows("S29")
def test_one_stuck_pod_of_twenty_is_named_alone(stand: Stand) -> None:
    owner = stand.owner("web")
    stuck = {STOPS: "1h"}
    stand.fill(
        *(stand.pod(f"web-{n}", stand.a, owner=owner) for n in range(19)),
        stand.pod("stuck", stand.a, owner=owner, grace=60, annotations=stuck),
    )
    ran = stand.run("drain", stand.a, "--timeout=4s", "-o", "json")
    node = ran.nodes[stand.a]
    assert (ran.code, node["state"]) == (1, "timed-out")
    assert node["left"] == [f"{stand.namespace}/stuck"]
    assert len(node["evicted"]) == 20
    assert ran.seconds < 5


@shows("S30")
def test_nothing_is_asked_after_the_deadline(stand: Stand) -> None:
    owner = stand.owner("web")
    stand.fill(*(
        stand.pod(f"web-{n}", stand.a, owner=owner, grace=60, annotations={STOPS: "1h"})
        for n in range(30)
    ))  # fmt: skip
    ran = stand.run("drain", stand.a, "--timeout=2s")
    stand.remember()
    assert ran.code == 1
    assert ran.seconds < 3
    time.sleep(1)
    assert stand.asked("list", "pods") == stand.asked("watch", "pods") == []
    assert stand.writes() == []


@shows("S33")
def test_the_volumes_of_pods_that_left_are_waited_for_and_no_others(stand: Stand) -> None:
    volume = f"disk-{stand.namespace}"
    claim = {
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": "disk", "namespace": stand.namespace},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "", "volumeName": volume,
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }  # fmt: skip
    disk = {
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": volume},
        "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
            "csi": {"driver": "disk.example.com", "volumeHandle": volume},
        },
    }  # fmt: skip
    attached = [
        {
            "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment",
            "metadata": {"name": f"{kind}-{stand.namespace}", "finalizers": ["example.com/hold"]},
            "spec": {
                "attacher": "disk.example.com", "nodeName": stand.a,
                "source": {"persistentVolumeName": name},
            },
        }
        for kind, name in (("ours", volume), ("other", f"{volume}-other"))
    ]  # fmt: skip
    used = [{"name": "disk", "persistentVolumeClaim": {"claimName": "disk"}}]
    names = [a["metadata"]["name"] for a in attached]

    def detach(*which: str) -> None:
        for name in which:
            path = f"/apis/storage.k8s.io/v1/volumeattachments/{name}"
            stand.patch(path, {"metadata": {"finalizers": None}})
            stand.cluster.kubectl("delete", "volumeattachment", name, "--ignore-not-found")

    stand.cluster.create(disk, claim, *attached)
    try:
        stand.fill(stand.pod("db", stand.a, owner=stand.owner("db"), volumes=used), ready=0)
        later = threading.Timer(3.0, lambda: detach(names[0]))
        later.start()
        ran = stand.run("drain", stand.a, "--timeout=30s")
        later.join()
    finally:
        detach(names[1])
        stand.cluster.kubectl("delete", "pv", volume, "--wait=false")
    assert ran.code == 0, ran.out
    assert f"waiting for {volume} to be detached" in ran.out
    assert 2.5 < ran.seconds < 8


@shows("S35")
def test_no_taint_is_put_on_but_that_of_the_cordon(stand: Stand) -> None:
    stand.fill(stand.pod("web", stand.a, owner=stand.owner("web")))
    assert stand.run("drain", stand.a).code == 0
    eventually(lambda: stand.taints(stand.a), "the taint of the cordon")
    assert stand.taints(stand.a) == ["node.kubernetes.io/unschedulable"]
