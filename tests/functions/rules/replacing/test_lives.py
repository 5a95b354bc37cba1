"""Random lives of a machine: whatever happens in whatever order, it ends only if nothing that is
known of it at that moment speaks against it, and once.

What may speak against it is written down here once more, from the facts alone and not from the
guards' code.
"""

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from events.notice import Cause, Kind, Severity
from functions.rules import replacing
from functions.rules.incidents import Cordon, Incident, State
from functions.rules.ledger import Ledger
from functions.rules.replacing import Act, Closer, Seen
from functions.rules.replacing.book import Phase
from tests.support.facts import NOW, node
from tests.support.sick import (
    DAY,
    HOUR,
    book,
    changed,
    drained,
    entry,
    facts,
    incident,
    machine,
    record,
    with_policy,
)

RULES = with_policy("ladder: [{rungs: [reboot, replace]}]")


@dataclass
class Life:
    now: datetime = NOW
    known: Any = None
    asked: int = 0
    boot: int = 1
    unschedulable: bool = True
    theirs: bool = False
    opted_out: bool = False
    hold: str = ""
    paused: str = ""
    incidents: list[Incident] = field(default_factory=lambda: [incident(first=NOW)])
    pods: tuple[str, ...] = ()
    twins: tuple[str, ...] = ()
    drained_at: datetime | None = NOW
    seen: Seen = Seen.RUNNING
    read: bool = True
    gone: bool = False
    state: str = "evict"

    def step(self) -> None:
        self.now += timedelta(minutes=30)
        one = machine(
            view=None if self.gone else self._view(),
            record=None if self.gone else self._record(),
            state=self.state,
            drain=drained(self.drained_at) if self.drained_at else None,
            entry=self.known,
            hold=self.hold,
            closer=None,
        )
        step = self._decide(one)
        if step.act in (Act.LOOK_CLOSER, Act.LOOK_AT_CLOUD):
            closer = Closer(
                seen=self.seen, pods=self.pods, twins=self.twins, way="ec2", account="1"
            )
            step = self._decide(replace(one, closer=closer))
        self.known = step.entry
        if step.act is Act.TERMINATE:
            self.check()
            self.asked += 1
            intended = replacing.intend(step.facts, step.entry, "replace", "t", "", self.now)
            self.known = changed(intended, intent=changed(intended.intent, asked=self.now))
            self.seen = Seen.ENDING
        elif step.act is Act.REBOOT:
            assert not self.pods
            assert self.unschedulable
            assert not self.theirs
            assert not (self.hold)
            assert not (self.paused)
            assert not (self.opted_out)
            assert not (self.gone)
            self.known = replacing.intend(step.facts, step.entry, "reboot", "t", "", self.now)
            recent = [at for at in self.known.reboots if self.now - at < 7 * DAY]
            assert len(recent) <= 2

    def _decide(self, one: Any) -> Any:
        read = self.now if self.read else self.now - HOUR
        books = {pool: book(seen=self.now, awake=NOW - DAY) for pool in ("", "gpu")}
        led = Ledger(pool="gpu", size=100, rebuilt=read)
        found = facts(one, books=books, ledgers={"gpu": led}, paused=lambda pool: self.paused)
        (step,) = replacing.decide(found, RULES, self.now)
        return step

    def _view(self) -> Any:
        labels = {"groundcrew.dev/managed": "false"} if self.opted_out else {}
        return node(
            unschedulable=self.unschedulable,
            state=self.state,
            incidents="{}",
            boot_id=f"boot-{self.boot}",
            labels=labels,
        )

    def _record(self) -> Any:
        cordon = Cordon(at=NOW, theirs=self.theirs)
        return record(*self.incidents, cordon=cordon)

    def check(self) -> None:
        """Nothing speaks against the end of this machine, now."""
        assert self.asked == 0 or self.seen is Seen.RUNNING
        assert not self.gone
        assert self.unschedulable
        assert not self.theirs
        assert self.state in ("cordon", "evict")
        assert not (self.opted_out)
        assert not (self.hold)
        assert not (self.paused)
        assert not (self.twins)
        assert self.read
        assert self.seen is Seen.RUNNING
        faults = [
            i
            for i in self.incidents
            if i.state is State.OPEN
            and i.kind is Kind.FAULT
            and i.severity is not Severity.WATCH
            and i.cause in (Cause.HARDWARE, Cause.UNKNOWN)
        ]
        said = [i for i in faults if i.claimed is None and i.rebooted is None]
        assert said
        began = min(min(i.first for i in faults), self.known.began)
        if self.now - began >= 7 * DAY:
            return
        assert not self.pods
        in_log = any(i.in_log and i.severity is Severity.EVICT for i in said)
        assert in_log or len({i.source for i in said}) > 1
        worst = max(i.severity.rank for i in faults)
        if worst == Severity.EVICT.rank:
            assert self.drained_at is not None
            assert self.now - self.drained_at >= HOUR
        else:
            assert self.now - self.known.empty >= DAY

    # what happens

    def accuse(self, number: int) -> None:
        kinds: list[dict[str, Any]] = [
            {"check": "a"},
            {"check": "b", "in_log": False},
            {"check": "c", "in_log": False, "source": "alertmanager", "latched": False},
            {"check": "d", "severity": Severity.CORDON},
            {"check": "e", "cause": Cause.SOFTWARE},
            {"check": "f", "kind": Kind.MAINTENANCE},
            {"check": "g", "severity": Severity.WATCH},
        ]
        made = incident(first=self.now, last=self.now, boot=f"boot-{self.boot}", **kinds[number])
        self.incidents = [i for i in self.incidents if i.check != made.check] + [made]

    def take_back(self) -> None:
        self.incidents = [changed(i, claimed=self.now) for i in self.incidents]

    def close(self) -> None:
        self.incidents = [changed(i, state=State.CLOSED, ended=self.now) for i in self.incidents]

    def boot_anew(self) -> None:
        self.boot += 1
        self.drained_at = self.now if self.drained_at else None
        self.incidents = [
            changed(i, rebooted=self.now) if i.state is State.OPEN else i for i in self.incidents
        ]


EVENTS = st.one_of(
    st.tuples(st.just("wait"), st.integers(1, 60)),
    st.tuples(st.just("accuse"), st.integers(0, 6)),
    st.tuples(st.sampled_from(["take_back", "close", "boot_anew"]), st.just(0)),
    st.tuples(
        st.sampled_from(["unschedulable", "theirs", "opted_out", "read", "gone"]),
        st.booleans(),
    ),
    st.tuples(st.sampled_from(["hold", "paused"]), st.sampled_from(["", "said so"])),
    st.tuples(st.just("pods"), st.sampled_from([(), ("a/b",)])),
    st.tuples(st.just("twins"), st.sampled_from([(), ("n2",)])),
    st.tuples(st.just("drained_at"), st.booleans()),
    st.tuples(st.just("seen"), st.sampled_from([Seen.RUNNING, Seen.UNKNOWN])),
    st.tuples(st.just("state"), st.sampled_from(["evict", "cordon", "released"])),
)


def live(events: list[tuple[str, Any]]) -> Life:
    life = Life(known=entry(began=NOW, changed=NOW, noted=NOW, empty=None))
    for what, given_ in events:
        if what == "wait":
            for _ in range(given_):
                life.step()
        elif what in ("take_back", "close", "boot_anew"):
            getattr(life, what)()
        elif what == "accuse":
            life.accuse(given_)
        elif what == "drained_at":
            life.drained_at = life.now if given_ else None
        elif not (what == "seen" and life.asked):
            setattr(life, what, given_)
        life.step()
    return life


@settings(max_examples=250, deadline=None)
@given(st.lists(EVENTS, max_size=30))
def test_no_life_of_a_machine_ends_while_anything_speaks_against_it(
    events: list[tuple[str, Any]],
) -> None:
    life = live(events)
    assert life.asked <= 1


def test_the_lives_are_not_all_long() -> None:
    """With nothing in its way the same machine does end: the test above could fail."""
    accused = [("boot_anew", 0), ("accuse", 0), ("wait", 10)]
    life = live(accused)
    assert life.asked == 1
    assert life.known.phase is Phase.ENDING
    late = live([("pods", ("a/b",)), ("drained_at", False), *[("wait", 60)] * 6])
    assert late.asked == 1
