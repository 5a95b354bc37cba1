"""Whether what a scenario expects has come true, and what was seen where it has not."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from functions.rules import incidents, keys
from functions.rules.decision import Decision
from infra.local.scenario import Decided, Evictions, Expect, Scenario
from infra.local.scenario_file import moment, pick
from infra.local.timeline import Checked, Did
from infra.local.world import Api

if TYPE_CHECKING:
    from infra.local.player import Played

NONE = "none"


class Judge:
    def __init__(self, scenario: Scenario, api: Api, played: "Played") -> None:
        self._scenario = scenario
        self._api = api
        self._played = played

    def check(self, expect: Expect, line: int, now: datetime) -> Iterator[Checked]:
        if expect.node:
            found = self._node(expect)
        elif decided := expect.decided or expect.never:
            found = [self._decided(decided, never=expect.never is not None)]
        elif expect.evictions:
            found = [self._evictions(expect.evictions)]
        elif expect.ended:
            found = [self._ended(expect.ended)]
        else:
            found = [self._most_out(pool, most) for pool, most in expect.most_out.items()]
        for expected, seen in found:
            yield Checked(
                at=now,
                expected=expected,
                holds=not seen,
                seen=seen,
                because=expect.because,
                line=line,
            )

    def final(self) -> dict[str, dict[str, Any]]:
        """How each node that carries our marks, or is cordoned, ended."""
        found = {}
        for node in self._api.list("/api/v1/nodes"):
            state, cordoned = _state(node), _is_cordoned(node)
            if state != NONE or cordoned:
                found[node["metadata"]["name"]] = {
                    "state": state,
                    "schedulable": not cordoned,
                    "incidents": _incidents(node),
                }
        return found

    def _node(self, expect: Expect) -> list[tuple[str, str]]:
        """What was expected of each node, and what was seen if it is not so."""
        found: list[tuple[str, str]] = []
        names = pick(expect.node, self._scenario.nodes)
        for name in names:
            node = self._api.find(f"/api/v1/nodes/{name}")
            if node is None:
                found.append((f"{name} is there", "no such node"))
                continue
            found += _compare(name, expect, node)
            if expect.emptied is not None:
                pods = self._workloads_on(name)
                wanted = f"{name} {'is emptied' if expect.emptied else 'keeps its pods'}"
                seen = f"{len(pods)} pods: {', '.join(pods[:3])}" if pods else "no pods"
                found.append((wanted, "" if bool(pods) != expect.emptied else seen))
        if len(names) == 1:
            return found
        # Of many nodes one line each for those that differ, and one for all the others.
        who = expect.node if isinstance(expect.node, str) else ", ".join(expect.node)
        holding = dict.fromkeys(text.partition(" ")[2] for text, seen in found if not seen)
        who = "every node" if who == "*" else who
        return [(f"{who}: {text}", "") for text in holding] + [one for one in found if one[1]]

    def _workloads_on(self, name: str) -> list[str]:
        pods = self._api.list("/api/v1/pods", fieldSelector=f"spec.nodeName={name}")
        return [pod["metadata"]["name"] for pod in pods if _is_workload(pod)]

    def _decided(self, wanted: Decided, *, never: bool) -> tuple[str, str]:
        start = self._scenario.start
        since = moment(wanted.since, start) if wanted.since else None
        by = moment(wanted.by, start) if wanted.by else None
        names = set(pick(wanted.node, self._scenario.nodes))
        fits = [
            entry
            for entry in self._played.entries
            if isinstance(entry, Did)
            and entry.decision.action == wanted.action
            and entry.decision.node in names
            and (since is None or entry.at >= since)
            and (by is None or entry.at <= by)
            and wanted.reason in _words(entry.decision)
        ]
        text = _told(wanted)
        shown = "; ".join(
            f"{e.at:%a %H:%M:%S} {e.decision.node}: {e.decision.reason}" for e in fits[:3]
        )
        if never:
            return f"never {text}", shown
        if wanted.times is not None:
            seen = "" if len(fits) == wanted.times else f"{len(fits)} times. {shown}"
            return f"{text} {wanted.times} times", seen
        return text, "" if fits else self._near(wanted, names)

    def _near(self, wanted: Decided, names: set[str]) -> str:
        """What was decided about these nodes instead."""
        about = [
            f"{e.at:%a %H:%M:%S} {e.decision.action} {e.decision.node}"
            for e in self._played.entries
            if isinstance(e, Did) and e.decision.node in names
        ]
        return f"no such decision; there were {', '.join(about[-4:])}" if about else "no decision"

    def _evictions(self, wanted: Evictions) -> tuple[str, str]:
        count = self._played.counts.evictions
        most = wanted.at_most
        text = f"at least {wanted.at_least} pods are evicted"
        if most is not None:
            text = f"between {wanted.at_least} and {most} pods are evicted"
        holds = count >= wanted.at_least and (most is None or count <= most)
        return text, "" if holds else f"{count} were"

    def _ended(self, wanted: Evictions) -> tuple[str, str]:
        count, most = self._played.counts.ended, wanted.at_most
        holds = count >= wanted.at_least and (most is None or count <= most)
        up_to = "" if most is None else f" and at most {most}"
        return f"at least {wanted.at_least}{up_to} machines end", "" if holds else f"{count} did"

    def _most_out(self, pool: str, most: int) -> tuple[str, str]:
        seen = self._played.counts.most_out.get(pool, 0)
        where = "in the cluster" if pool == "all" else f"of pool {pool}"
        text = f"never more than {most} nodes {where} are out of service at once"
        return text, "" if seen <= most else f"{seen} were"


def _compare(name: str, expect: Expect, node: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if expect.schedulable is not None:
        schedulable = not _is_cordoned(node)
        words = ("takes work", "is cordoned")
        seen = "" if schedulable == expect.schedulable else f"it {words[not schedulable]}"
        yield f"{name} {words[not expect.schedulable]}", seen
    if expect.state is not None:
        state = _state(node)
        yield f"{name} has state {expect.state}", "" if state == expect.state else state
    for check, wanted in expect.incidents.items():
        state = _incidents(node).get(check, NONE)
        yield f"{name} has its incident {check} {wanted}", "" if state == wanted else state


def _told(wanted: Decided) -> str:
    who = wanted.node if isinstance(wanted.node, str) else ", ".join(wanted.node)
    text = f"{wanted.action} {'any node' if who == '*' else who}"
    text += f" ({wanted.reason})" if wanted.reason else ""
    text += f" since {wanted.since}" if wanted.since else ""
    return text + (f" by {wanted.by}" if wanted.by else "")


def _words(decision: Decision) -> str:
    words = (decision.reason, decision.incident, decision.evidence, *decision.blocked_by)
    return "\n".join(words)


def _state(node: Mapping[str, Any]) -> str:
    labels = node["metadata"].get("labels") or {}
    return str(labels.get(keys.STATE) or NONE)


def _is_cordoned(node: Mapping[str, Any]) -> bool:
    return bool(node["spec"].get("unschedulable"))


def _incidents(node: Mapping[str, Any]) -> dict[str, str]:
    text = (node["metadata"].get("annotations") or {}).get(keys.INCIDENTS)
    if text is None:
        return {}
    try:
        record = incidents.decode(text)
    except incidents.Unreadable:
        return {}
    return {incident.check: incident.state.value for incident in record.incidents}


def _is_workload(pod: Mapping[str, Any]) -> bool:
    meta = pod["metadata"]
    owners = [o for o in meta.get("ownerReferences") or () if o.get("controller")]
    if keys.BALLOON in (meta.get("labels") or {}):
        return False
    return not (owners and owners[0]["kind"] == "DaemonSet")
