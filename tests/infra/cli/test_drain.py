"""``groundcrew drain``: what it says and does, on the embedded cluster."""

import json
import os
import signal
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from events.notice import Severity
from functions.rules import claim, keys
from infra.local.cluster import EmbeddedCluster, builders
from tests.support.fleet import NAMESPACE, Fleet, Shell, words

NODE = "a-01"


class Floor:
    """What runs on the nodes."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.server = fleet.server

    def pod(self, name: str, *, app: str = "web", on: str = NODE, **more: Any) -> Any:
        owner = None
        if app:
            meta = {"name": app, "uid": f"uid-of-{app}"}
            owner = {"apiVersion": "example.com/v1", "kind": "Service", "metadata": meta}
            more.setdefault("labels", {"app": app})
        return self.server.apply(builders.pod(name, node=on, owner=owner, **more))

    def on(self, node: str = NODE) -> list[str]:
        pods = self.server.all("pods")
        return sorted(p["metadata"]["name"] for p in pods if p["spec"].get("nodeName") == node)

    def node(self, name: str = NODE) -> Any:
        return self.server.get("nodes", "", name)

    def cordoned(self, name: str = NODE) -> bool:
        return bool(self.node(name)["spec"].get("unschedulable"))

    def cordon(self, name: str = NODE) -> None:
        """As kubectl does it."""
        self.fleet.change(name, lambda n: n["spec"].update(unschedulable=True))

    def uncordon(self, name: str = NODE) -> None:
        self.fleet.change(name, lambda n: n["spec"].pop("unschedulable"))

    def claim(self, name: str = NODE) -> claim.Claim | None:
        notes = self.node(name)["metadata"].get("annotations", {})
        return claim.decode(notes.get(keys.CORDONED_BY))

    def evictions(self) -> list[Any]:
        return list(self.server.requests("create", "/eviction$"))

    def writes(self) -> list[str]:
        return [
            f"{r.verb} {r.path}"
            for r in self.server.requests()
            if r.verb not in ("get", "list", "watch") and "selfsubject" not in r.path
        ]


@pytest.fixture
def floor(fleet: Fleet) -> Floor:
    return Floor(fleet)


def test_a_node_is_cordoned_emptied_and_said_so(groundcrew: Shell, floor: Floor) -> None:
    for number in range(3):
        floor.pod(f"web-{number}")
    code, out, err = groundcrew("drain", NODE)
    assert (code, err) == (0, "")
    assert out.splitlines()[0] == f"{NODE}: cordoned"
    assert "drained in" in out
    assert "3 pods evicted" in out
    assert floor.on() == []
    assert floor.cordoned()
    made = floor.claim()
    assert made is not None
    assert (made.by, made.over) == ("jane", None)


def test_no_pod_is_evicted_before_every_node_is_cordoned(groundcrew: Shell, floor: Floor) -> None:
    floor.pod("web-1")
    floor.pod("web-2", on="a-02")
    assert groundcrew("drain", NODE, "a-02")[0] == 0
    kinds = [write.split()[0] for write in floor.writes()]
    assert kinds[:3] == ["patch", "patch", "create"]


@pytest.mark.parametrize(
    ("more", "flag", "why"),
    [
        ({"app": ""}, "--force", "no controller"),
        ({"empty_dirs": ("scratch",)}, "--delete-emptydir-data", "emptyDir volumes: scratch"),
    ],
)
def test_what_would_be_lost_is_refused_before_anything_is_changed(
    groundcrew: Shell, floor: Floor, more: dict[str, Any], flag: str, why: str
) -> None:
    empty_dirs = more.pop("empty_dirs", ())
    made = floor.pod("one", **more)
    if empty_dirs:
        made["spec"]["volumes"] = [{"name": name, "emptyDir": {}} for name in empty_dirs]
        floor.server.apply({"apiVersion": "v1", "kind": "Pod", **made})
    floor.pod("web-1", on="a-02")
    code, out, err = groundcrew("drain", "a-02", NODE)
    assert (code, out) == (2, "")
    assert f"{NODE}: default/one" in err
    assert why in err
    assert flag in err
    assert floor.writes() == []
    assert groundcrew("drain", "a-02", NODE, flag)[0] == 0


def test_a_finished_pod_needs_no_flag(groundcrew: Shell, floor: Floor) -> None:
    made = floor.pod("done", app="")
    made["status"]["phase"] = "Succeeded"
    made["spec"]["volumes"] = [{"name": "scratch", "emptyDir": {}}]
    floor.server.apply({"apiVersion": "v1", "kind": "Pod", **made})
    assert groundcrew("drain", NODE)[0] == 0
    assert floor.on() == []


def test_daemon_pods_are_left_alone_unless_that_is_switched_off(
    groundcrew: Shell, floor: Floor, fleet: Fleet
) -> None:
    floor.server.apply(builders.workload("DaemonSet", "agent", namespace="kube-system"))
    fleet.pass_time(seconds=5)
    code, _, err = groundcrew("drain", NODE, "--ignore-daemonsets=false")
    assert code == 2
    assert "DaemonSet kube-system/agent" in err
    assert not floor.cordoned()
    code, out, _ = groundcrew("drain", "--ignore-daemonsets", NODE)
    assert code == 0
    assert "left alone: 1 of DaemonSets" in out


@pytest.mark.parametrize(
    ("right", "told"),
    [
        (("create", "pods", "eviction"), "create pods/eviction in namespace default"),
        (("patch", "nodes", ""), f"patch node {NODE}"),
        (("watch", "pods", ""), "watch pods in all namespaces"),
        (("patch", "pods", ""), "patch pods in namespace default"),
    ],
)
def test_a_missing_right_is_found_before_the_first_write(
    groundcrew: Shell, floor: Floor, right: tuple[str, str, str], told: str
) -> None:
    floor.pod("web-1")
    floor.pod("rank-0", labels={keys.GANG: "run-7"})

    def deny(asked: Any) -> str:
        found = (asked["verb"], asked["resource"], asked.get("subresource", ""))
        return "no" if found == right else ""

    floor.server.deny(deny)
    code, _, err = groundcrew("drain", NODE)
    assert (code, f"you may not {told}" in err) == (2, True)
    assert floor.writes() == []
    assert not floor.cordoned()


@pytest.mark.parametrize("path", ["/nodes", "/api/v1/pods"])
def test_what_may_not_be_read_is_refused_before_the_first_write(
    groundcrew: Shell, floor: Floor, path: str
) -> None:
    floor.server.faults.fail("*", path, 403, message="no", times=100)
    code, _, err = groundcrew("drain", NODE)
    assert (code, "not allowed: no" in err) == (2, True)
    assert floor.writes() == []


FAULTS: dict[str, Callable[[EmbeddedCluster, str], None]] = {
    "500": lambda server, verb: server.faults.fail(verb, "", 500, times=3),
    "429": lambda server, verb: server.faults.fail(verb, "", 429, retry_after_seconds=1, times=3),
    "reset": lambda server, verb: server.faults.drop(verb, "", times=3),
    "answer lost": lambda server, verb: server.faults.drop(verb, "", carried_out=True, times=3),
}


@pytest.mark.parametrize("verb", ["get", "list", "watch", "create", "patch"])
@pytest.mark.parametrize("fault", FAULTS)
def test_once_the_node_is_cordoned_a_fault_of_any_verb_only_delays(
    groundcrew: Shell, floor: Floor, verb: str, fault: str
) -> None:
    for number in range(3):
        floor.pod(f"web-{number}", stop_seconds=number + 1)
    floor.pod("rank-0", labels={keys.GANG: "run-7"}, stop_seconds=1)
    floor.server.faults.before(
        "patch", f"/nodes/{NODE}", lambda _: FAULTS[fault](floor.server, verb)
    )
    code, out, err = groundcrew("drain", NODE, "--gang-notice", "2s")
    assert code == 0, out + err
    assert floor.on() == []
    asked = [e.path for e in floor.evictions() if 200 <= e.status < 300]
    assert len(asked) == len(set(asked)) == 4


def test_a_node_that_cannot_be_cordoned_takes_the_others_back(
    groundcrew: Shell, floor: Floor
) -> None:
    floor.pod("web-1")
    floor.server.faults.fail("patch", "/nodes/a-02", 403, times=100)
    code, _, err = groundcrew("drain", NODE, "a-02")
    assert code == 2
    assert "a-02 could not be cordoned" in err
    assert floor.evictions() == []
    assert not floor.cordoned()
    assert floor.claim() is None


def test_a_cordon_whose_answer_is_lost_is_made_certain(groundcrew: Shell, floor: Floor) -> None:
    floor.pod("web-1")
    floor.server.faults.drop("patch", f"/nodes/{NODE}", carried_out=False)
    floor.server.faults.fail("patch", f"/nodes/{NODE}", 500)
    assert groundcrew("drain", NODE)[0] == 0
    assert floor.cordoned()


def test_somebody_elses_cordon_stays_theirs_and_is_not_written_over(
    groundcrew: Shell, floor: Floor
) -> None:
    floor.cordon()
    floor.pod("web-1")
    code, out, _ = groundcrew("drain", NODE)
    assert code == 0
    assert "by somebody else" in out
    assert [w for w in floor.writes() if w.startswith("patch")] == []


def test_the_reason_that_was_given_is_kept_on_the_node(groundcrew: Shell, floor: Floor) -> None:
    assert groundcrew("drain", NODE, "--reason", "swap the NIC")[0] == 0
    found = floor.claim()
    assert found is not None
    assert found.reason == "swap the NIC"
    code, _, err = groundcrew("drain", "a-02", "--reason", "x" * 201)
    assert (code, "at most 200" in err) == (2, True)
    assert not floor.cordoned("a-02")


def test_a_second_drain_writes_nothing(groundcrew: Shell, floor: Floor) -> None:
    floor.pod("web-1")
    groundcrew("drain", NODE)
    before = floor.fleet.written()
    code, out, _ = groundcrew("drain", NODE)
    assert (code, floor.fleet.written()) == (0, before)
    assert "cordoned already, with groundcrew" in out


def test_the_cordon_of_a_person_is_not_undone_when_an_incident_is_over(
    groundcrew: Shell, floor: Floor, fleet: Fleet
) -> None:
    fleet.resync()
    fleet.say(NODE, "KernelDeadlock", severity=Severity.CORDON)
    assert floor.cordoned()
    assert floor.claim() is None
    code, out, _ = groundcrew("drain", NODE)
    assert code == 0
    assert "kubernetes.event/KernelDeadlock" in out
    assert floor.claim() is not None
    fleet.change(NODE, lambda n: n["status"]["nodeInfo"].update(bootID="another"))
    for _ in range(6):
        fleet.resync()
        fleet.pass_time(minutes=6)
    assert floor.node()["metadata"]["labels"].get(keys.STATE) == "released"
    assert floor.cordoned()
    fleet.resync()
    assert floor.cordoned()


def test_our_own_cordon_is_no_dismissal_and_later_incidents_leave_it(
    groundcrew: Shell, floor: Floor, fleet: Fleet
) -> None:
    fleet.resync()
    groundcrew("drain", NODE)
    for _ in range(3):
        fleet.resync()
        fleet.pass_time(minutes=5)
    assert floor.cordoned()
    assert keys.INCIDENTS not in floor.node()["metadata"]["annotations"]
    fleet.say(NODE, "KernelDeadlock", severity=Severity.CORDON)
    fleet.change(NODE, lambda n: n["status"]["nodeInfo"].update(bootID="another"))
    for _ in range(6):
        fleet.resync()
        fleet.pass_time(minutes=6)
    assert floor.cordoned()


def test_what_is_in_the_way_is_named_and_the_rest_goes(groundcrew: Shell, floor: Floor) -> None:
    floor.pod("web-1")
    floor.pod("db-1", app="db")
    for number in (1, 2):
        floor.server.apply(builders.pdb(f"db-{number}", labels={"app": "db"}, max_unavailable=1))
    code, out, _ = groundcrew("drain", NODE)
    assert code == 1
    assert "default/db-1, default/db-2" in out
    assert f"groundcrew uncordon {NODE}" in out
    assert floor.on() == ["db-1"]


def test_a_budget_that_holds_is_named_when_the_time_is_over(
    groundcrew: Shell, floor: Floor, fleet: Fleet
) -> None:
    floor.pod("db-1", app="db")
    floor.pod("db-2", app="db", on="a-02")
    floor.server.apply(builders.pdb("db", labels={"app": "db"}, min_available=1))
    floor.server.held.add("disruption")
    made = floor.server.get("poddisruptionbudgets", "default", "db")
    assert made is not None
    made["status"] = {
        "disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 2,
        "observedGeneration": 1,
    }  # fmt: skip
    kind = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget"}
    floor.server.apply({**kind, **made})
    before = fleet.clock.monotonic()
    code, out, _ = groundcrew("drain", NODE, "--timeout", "3s")
    assert code == 1
    assert "PodDisruptionBudget default/db" in out
    assert "the time was over" in out
    assert 2.9 <= fleet.clock.monotonic() - before <= 3.5


def test_an_uncordon_in_the_middle_stops_it(groundcrew: Shell, floor: Floor) -> None:
    for name in ("a", "b"):
        floor.pod(name, stop_seconds=8)
    made = floor.pod("late")
    made["spec"]["priority"] = 2_000_000_000
    floor.server.apply({"apiVersion": "v1", "kind": "Pod", **made})
    floor.server.faults.before("create", "/b/eviction", lambda _: floor.uncordon())
    code, out, _ = groundcrew("drain", NODE)
    assert code == 1
    assert "stopped: somebody uncordoned the node" in out
    assert "late" in floor.on()
    assert not floor.cordoned()


def test_a_node_that_is_deleted_in_the_middle_ends_it(groundcrew: Shell, floor: Floor) -> None:
    floor.pod("slow", stop_seconds=60, grace_seconds=60)
    floor.server.faults.before(
        "create", "/eviction", lambda _: floor.server.delete("nodes", "", NODE)
    )
    code, out, _ = groundcrew("drain", NODE)
    assert code == 1
    assert "the node was deleted" in out


def test_a_pod_that_holds_out_is_waited_for_and_its_finalizer_named(
    groundcrew: Shell, floor: Floor
) -> None:
    made = floor.pod("held", grace_seconds=1)
    made["metadata"]["finalizers"] = ["example.com/hold"]
    floor.server.apply({"apiVersion": "v1", "kind": "Pod", **made})
    code, out, _ = groundcrew("drain", NODE, "--timeout=20s")
    assert code == 1
    assert "held by finalizer example.com/hold" in out


def test_pods_that_should_be_gone_can_be_left_behind(
    groundcrew: Shell, floor: Floor, fleet: Fleet
) -> None:
    made = floor.pod("held", grace_seconds=1)
    made["metadata"]["finalizers"] = ["example.com/hold"]
    floor.server.apply({"apiVersion": "v1", "kind": "Pod", **made})
    before = fleet.clock.monotonic()
    code, out, _ = groundcrew("drain", NODE, "--skip-wait-for-delete-timeout=2")
    assert code == 0
    assert "1 not waited for" in out
    assert fleet.clock.monotonic() - before < 10


def test_only_the_selected_pods_leave(groundcrew: Shell, floor: Floor) -> None:
    floor.pod("web-1")
    floor.pod("db-1", app="db")
    assert groundcrew("drain", NODE, "--pod-selector", "app=web")[0] == 0
    assert floor.on() == ["db-1"]


@pytest.mark.parametrize("others", [0, 2])
def test_a_pod_that_is_bound_just_before_the_cordon_is_evicted_too(
    groundcrew: Shell, floor: Floor, others: int
) -> None:
    for number in range(others):
        floor.pod(f"web-{number}")
    floor.server.faults.before("patch", f"/nodes/{NODE}", lambda _: floor.pod("late"))
    code, out, _ = groundcrew("drain", NODE)
    assert (code, f"{others + 1} pod" in out) == (0, True)
    assert floor.on() == []
    asked = [r.path.partition("?")[0] for r in floor.server.requests("list", "/api/v1/pods")]
    assert len(asked) <= 3, "before the cordon, and once the node seems to be empty"


def test_many_nodes_of_a_small_cluster_are_read_by_one_list(
    groundcrew: Shell, floor: Floor
) -> None:
    names = [f"a-{number:02}" for number in range(1, 13)]
    floor.server.seen.clear()
    code, _, err = groundcrew("drain", *names, "no-such-node")
    assert (code, "no such node: no-such-node;" in err) == (2, True)
    assert floor.server.requests("get", "/nodes/") == []
    assert groundcrew("drain", *names)[0] == 0
    assert all(floor.cordoned(name) for name in names)
    assert not floor.cordoned("a-13")


def test_nodes_are_chosen_by_label(groundcrew: Shell, floor: Floor) -> None:
    floor.fleet.change("a-03", lambda n: n["metadata"]["labels"].update(rack="7"))
    floor.pod("web-1", on="a-03")
    assert groundcrew("drain", "-l", "rack=7")[0] == 0
    assert floor.on("a-03") == []
    code, _, err = groundcrew("drain", "-l", "rack=8")
    assert (code, "no node has the labels rack=8" in err) == (2, True)


def test_a_chosen_grace_is_sent_and_none_otherwise(groundcrew: Shell, floor: Floor) -> None:
    floor.pod("web-1", grace_seconds=45)
    groundcrew("drain", NODE, "--grace-period", "7")
    floor.pod("web-2", on="a-02", grace_seconds=45)
    groundcrew("drain", "a-02", "--grace-period=-1")
    bodies = [json.loads(e.body)["deleteOptions"] for e in floor.evictions()]
    assert bodies[0]["gracePeriodSeconds"] == 7
    assert "gracePeriodSeconds" not in bodies[1]


@pytest.mark.parametrize(
    ("argv", "why"),
    [
        ((NODE, "--grace-period", "0"), "could run twice"),
        ((NODE, "--timeout", "soon"), "no duration"),
        ((NODE, "--grace-period", "x"), "whole number"),
        ((), "name the nodes"),
        ((NODE, "-l", "a=b"), "one of the two"),
        (("no-such-node", NODE), "no such node: no-such-node"),
    ],
)
def test_wrong_usage_changes_nothing(
    groundcrew: Shell, floor: Floor, argv: tuple[str, ...], why: str
) -> None:
    code, _, err = groundcrew("drain", *argv)
    assert code == 2
    assert why in words(err)
    assert floor.writes() == []


def test_flags_are_read_as_kubectl_reads_them(groundcrew: Shell, floor: Floor) -> None:
    floor.pod("bare", app="")
    assert groundcrew("drain", "--force", NODE, "--dry-run")[0] == 0
    assert groundcrew("drain", "--force=true", NODE, "--dry-run=client")[0] == 0
    assert groundcrew("drain", "--force=false", NODE, "--dry-run")[0] == 2
    assert groundcrew("drain", "--dry-run", NODE, "--force", "a-02")[0] == 0
    assert floor.writes() == []


def test_a_gang_is_warned_and_waited_for_until_it_is_ready(
    groundcrew: Shell, floor: Floor, fleet: Fleet
) -> None:
    labels = {keys.GANG: "run-7"}
    for number in range(2):
        floor.pod(f"rank-{number}", labels=labels, on=f"a-0{number + 1}")
    before = fleet.clock.monotonic()
    code, out, _ = groundcrew("drain", NODE, "--gang-notice", "30s")
    assert code == 0
    assert "gang default/run-7 is warned" in out
    assert 29 <= fleet.clock.monotonic() - before <= 35
    notes = floor.server.get("pods", "default", "rank-1")["metadata"]["annotations"]
    assert keys.EVICT_AFTER in notes
    assert floor.on("a-02") == ["rank-1"]


def test_a_gang_is_not_waited_for_where_no_notice_is_wanted(
    groundcrew: Shell, floor: Floor, fleet: Fleet
) -> None:
    floor.pod("rank-0", labels={keys.GANG: "run-7"})
    before = fleet.clock.monotonic()
    assert groundcrew("drain", NODE, "--gang-notice=0")[0] == 0
    assert fleet.clock.monotonic() - before < 5


def test_a_drain_that_fails_takes_its_warnings_back(groundcrew: Shell, floor: Floor) -> None:
    floor.pod("rank-0", labels={keys.GANG: "run-7"})
    assert groundcrew("drain", NODE, "--timeout", "5s")[0] == 1
    notes = floor.server.get("pods", "default", "rank-0")["metadata"].get("annotations", {})
    assert keys.EVICT_AFTER not in notes


def test_a_dry_run_shows_the_plan_and_writes_nothing(groundcrew: Shell, floor: Floor) -> None:
    floor.pod("web-1")
    floor.pod("db-1", app="db")
    floor.server.apply(builders.pdb("db", labels={"app": "db"}, min_available=1))
    floor.fleet.pass_time(seconds=2)
    before = floor.fleet.written()
    for how in ("--dry-run", "--dry-run=server"):
        code, out, _ = groundcrew("drain", NODE, how)
        assert code == 1
        assert f"{NODE}: would be cordoned; 1 evict, 1 blocked" in out
        assert "PodDisruptionBudget default/db can never allow it" in words(out)
    assert floor.fleet.written() == before
    code, out, _ = groundcrew("drain", "a-02", "--dry-run=server", "-o", "json")
    assert code == 0
    told = json.loads(out)
    assert (told["ok"], told["dry_run"]) == (True, "server")
    assert (told["nodes"][0]["state"], told["nodes"][0]["plan"]) == ("planned", [])


def test_the_report_as_json_is_all_that_is_printed(groundcrew: Shell, floor: Floor) -> None:
    floor.pod("web-1")
    floor.pod("bare", app="", on="a-02")
    code, out, _ = groundcrew("drain", NODE, "-o", "json")
    [node] = json.loads(out)["nodes"]
    assert code == 0
    assert (node["state"], node["cordon"], node["evicted"]) == (
        "drained",
        "made",
        ["default/web-1"],
    )
    code, out, _ = groundcrew("drain", "a-02", "-o", "json")
    [node] = json.loads(out)["nodes"]
    assert (code, node["state"]) == (2, "refused")
    assert node["blocked"][0]["pod"] == "default/bare"


def test_the_policys_pace_and_notice_hold(groundcrew: Shell, floor: Floor, fleet: Fleet) -> None:
    from functions.rules import policy
    from functions.steps import active

    made = policy.parse("version: 1\ndrain: {evictions_per_second: 2, gang_notice: 10s}\n")
    fleet.config_map(active.POLICY_NAME, "policy", active.policy_data(made, "a test"))
    for number in range(6):
        floor.pod(f"web-{number}")
    before = fleet.clock.monotonic()
    assert groundcrew("drain", NODE)[0] == 0
    assert 2 <= fleet.clock.monotonic() - before <= 5


def test_a_server_that_is_not_there_is_one_line(
    groundcrew: Shell, floor: Floor, fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    floor.server.faults.drop("get", "/nodes", times=100)
    code, out, err = groundcrew("drain", NODE)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "does not answer" in err


def test_a_server_that_stays_away_in_the_middle_is_said_so(
    groundcrew: Shell, floor: Floor, fleet: Fleet
) -> None:
    floor.pod("web-1", stop_seconds=2)
    floor.server.faults.drop("create", "/eviction", carried_out=True)
    floor.server.faults.drop("list", "/pods", times=10_000)
    floor.server.faults.drop("watch", "/pods", times=10_000)
    before = fleet.clock.now()
    code, out, err = groundcrew("drain", NODE, "--timeout", "60s")
    assert code in (1, 2)
    assert "does not answer" in err or "not drained" in out
    assert fleet.clock.now() - before < timedelta(minutes=5)


def test_a_login_that_ends_in_the_middle_is_said_so(
    groundcrew: Shell, floor: Floor, fleet: Fleet
) -> None:
    floor.pod("web-1", stop_seconds=60)

    def expire(_: object) -> None:
        floor.server.faults.fail("*", "", 401, reason="Unauthorized", times=10_000)

    floor.server.faults.before("watch", "/pods", expire)
    code, out, _ = groundcrew("drain", NODE)
    assert code == 1
    assert "not drained" in out
    assert "log in anew" in out
    assert "1 pod evicted" in out
    floor.server.faults.clear()
    assert groundcrew("drain", NODE)[0] == 0


def test_the_namespace_of_groundcrew_goes_last(groundcrew: Shell, floor: Floor) -> None:
    floor.pod("own", namespace=NAMESPACE)
    floor.pod("web-1", stop_seconds=2)
    assert groundcrew("drain", NODE)[0] == 0
    assert [e.path.split("/")[4] for e in floor.evictions()] == ["default", NAMESPACE]


def test_an_interrupt_before_the_first_eviction_takes_the_cordons_back(
    groundcrew: Shell, floor: Floor
) -> None:
    floor.pod("web-1")

    def interrupt(_: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    floor.server.faults.before("patch", "/nodes/a-02", interrupt)
    code, out, err = groundcrew("drain", NODE, "a-02")
    assert code == 130
    assert "interrupted" in out
    assert "cordons just made were taken back" in err
    assert floor.evictions() == []
    assert not floor.cordoned()
    assert not floor.cordoned("a-02")


def test_an_interrupt_before_anything_was_written_changes_nothing(
    groundcrew: Shell, floor: Floor
) -> None:
    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    floor.server.faults.before("get", "/nodes", interrupt)
    code, _, err = groundcrew("drain", NODE)
    assert (code, err) == (130, "groundcrew: interrupted; nothing was changed\n")
    assert floor.writes() == []
