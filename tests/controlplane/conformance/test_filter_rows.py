"""Which pods are evicted, left alone, or refused: F1 to F13."""

from typing import Any

from tests.controlplane.cluster import ControlPlane
from tests.controlplane.conformance.rows import shows
from tests.controlplane.conformance.stand import Stand, stands_still

EMPTY_DIR = [{"name": "scratch", "emptyDir": {}}]
HOST_PATH = [{"name": "models", "hostPath": {"path": "/models"}}]


def daemon_set(stand: Stand, name: str) -> dict[str, Any]:
    made = stand.workload("DaemonSet", name, 1)
    del made["spec"]["replicas"]
    return made


def unchanged(stand: Stand) -> bool:
    return stand.writes() == [] and not stand.cordoned(stand.a)


@shows("F1")
def test_a_static_pod_is_left_alone_and_reported(stand: Stand) -> None:
    mirror = {"kubernetes.io/config.mirror": "abc"}
    stand.fill(stand.pod("static", stand.a, annotations=mirror))
    ran = stand.run("drain", stand.a, "-o", "json")
    assert ran.code == 0
    key = f"{stand.namespace}/static"
    assert ran.nodes[stand.a]["ignored"] == {key: "a static pod of the kubelet"}
    assert stand.names(stand.a) == ["static"]


@shows("F2", "F3")
def test_pods_of_daemon_sets_stay_or_are_refused_and_are_known_by_one_list(stand: Stand) -> None:
    stand.cluster.create(*(daemon_set(stand, f"agent-{n}") for n in range(3)))
    stand.are_ready(3, stand.a)
    stand.remember()
    ran = stand.run("drain", stand.a, "--ignore-daemonsets=false")
    assert (ran.code, f"DaemonSet {stand.namespace}/agent-0" in ran.err) == (2, True)
    assert unchanged(stand)

    stand.remember()
    ran = stand.run("drain", stand.a)
    assert (ran.code, "3 of DaemonSets" in ran.out) == (0, True)
    assert stand.evictions() == []
    assert len(stand.names(stand.a)) == 3
    assert len(stand.asked("list", "daemonsets")) == 1
    assert stand.asked("get", "daemonsets") == []


@shows("F4")
def test_pods_whose_daemon_set_is_gone_are_like_bare_ones(
    stand: Stand, control_plane: ControlPlane
) -> None:
    gone = {
        "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "gone",
        "uid": "7e5f0f0e-3b1c-4a53-9a5e-000000000000", "controller": True,
    }  # fmt: skip
    with stands_still(control_plane, "kube-controller-manager"):  # it would collect it
        stand.create([stand.pod("left", stand.a, owner=gone)])
        stand.running("left", ready=True)
        stand.remember()
        ran = stand.run("drain", stand.a)
        assert ran.code == 2
        assert "left its DaemonSet gone is gone: nobody would make it anew (--force" in ran.err
        assert unchanged(stand)
        assert stand.run("drain", stand.a, "--force").code == 0
        assert stand.names(stand.a) == []


@shows("F7", "F8")
def test_what_would_be_lost_is_refused_with_everything_else(stand: Stand) -> None:
    owner = stand.owner("web")
    stand.fill(
        stand.pod("plain", stand.a, owner=owner),
        stand.pod("scratch", stand.a, owner=owner, volumes=EMPTY_DIR),
        stand.pod("bare", stand.a),
    )
    for flags, why in (
        ((), "--delete-emptydir-data"),
        ((), "--force"),
        (("--delete-emptydir-data",), "--force"),
        (("--force",), "emptyDir volumes: scratch"),
    ):
        stand.remember()
        ran = stand.run("drain", stand.a, *flags)
        assert (ran.code, why in ran.err) == (2, True)
        assert unchanged(stand)
    assert stand.run("drain", stand.a, "--force", "--delete-emptydir-data").code == 0
    assert stand.names(stand.a) == []


@shows("F9", "F10")
def test_finished_pods_need_no_flags(stand: Stand) -> None:
    # An owner of a kind that the garbage collector does not know is not missed by it.
    kruise = {
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "DaemonSet", "name": "agent",
        "uid": "7e5f0f0e-3b1c-4a53-9a5e-000000000000", "controller": True,
    }  # fmt: skip
    stand.fill(
        stand.pod("done", stand.a, volumes=EMPTY_DIR, restartPolicy="Never"),
        stand.pod("daemon", stand.a, owner=kruise, restartPolicy="Never"),
    )
    stand.finish("done")
    stand.finish("daemon")
    ran = stand.run("drain", stand.a)
    assert (ran.code, "warning" in ran.out) == (0, False)
    assert stand.names(stand.a) == []


@shows("F11")
def test_pods_whose_controller_is_gone_are_evicted_and_warned_of(
    stand: Stand, control_plane: ControlPlane
) -> None:
    stand.cluster.create(stand.workload("ReplicaSet", "web", 1))
    stand.are_ready(1, stand.a)
    gone = {
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "gone",
        "uid": "7e5f0f0e-3b1c-4a53-9a5e-000000000000", "controller": True,
    }  # fmt: skip
    with stands_still(control_plane, "kube-controller-manager"):  # it would collect them
        stand.create([
            stand.pod("left", stand.a, owner=gone),
            stand.pod("set", stand.a, owner={**gone, "kind": "StatefulSet"}),
        ])  # fmt: skip
        stand.running("left", ready=True)
        stand.running("set", ready=True)
        ran = stand.run("drain", stand.a)
    assert ran.code == 0
    where = f"{stand.a}: warning: {stand.namespace}"
    for name, kind in (("left", "ReplicaSet"), ("set", "StatefulSet")):
        assert f"{where}/{name} belongs to {kind} gone, which is gone: nobody" in ran.out
    assert ran.out.count("warning") == 2
    assert stand.names(stand.a) == []


@shows("F12")
def test_data_that_stays_on_the_node_is_warned_of(stand: Stand) -> None:
    owner = stand.owner("web")
    claim = {
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": "disk", "namespace": stand.namespace},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "", "volumeName": "disk",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }  # fmt: skip
    name = f"disk-{stand.namespace}"
    claim["spec"]["volumeName"] = name
    volume = {
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
            "local": {"path": "/disk"}, "persistentVolumeReclaimPolicy": "Delete",
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                {"key": "kubernetes.io/hostname", "operator": "In", "values": [stand.a]},
            ]}]}},
        },
    }  # fmt: skip
    stand.cluster.create(volume, claim)
    used = [{"name": "disk", "persistentVolumeClaim": {"claimName": "disk"}}]
    try:
        stand.fill(
            stand.pod("host", stand.a, owner=owner, volumes=HOST_PATH),
            stand.pod("disk", stand.a, owner=owner, volumes=used),
        )
        ran = stand.run("drain", stand.a)
    finally:
        stand.cluster.kubectl("delete", "pv", name, "--wait=false")
    assert ran.code == 0
    assert f"{stand.namespace}/host keeps data on the node (hostPath /models)" in ran.out
    assert f"{stand.namespace}/disk keeps data on the node (local volume {name})" in ran.out
    assert stand.names(stand.a) == []


@shows("F13")
def test_more_pods_than_a_page_are_all_evicted(stand: Stand) -> None:
    owner = stand.owner("web")
    stand.create([stand.pod(f"web-{n}", stand.a, owner=owner) for n in range(1200)])
    stand.remember()
    ran = stand.run("drain", stand.a)
    assert ran.code == 0
    assert "1200 pods evicted" in ran.out
    assert stand.names(stand.a) == []
    assert len(set(stand.evictions())) == 1200
    pages = {entry.request_uri for entry in stand.asked("list", "pods")}
    assert sum("continue=" in uri for uri in pages) >= 2, "three pages"
