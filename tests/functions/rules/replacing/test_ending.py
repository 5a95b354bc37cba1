"""An intent that is found, the cloud's word, and the machine that comes in its place."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from functions.rules.decision import Action
from functions.rules.incidents import State
from functions.rules.replacing import Act, Joined, Seen, Step, intend, returned
from functions.rules.replacing.book import Entry, Phase
from tests.support.facts import NOW
from tests.support.sick import (
    CLOSER,
    DAY,
    FULL,
    HOUR,
    MACHINE,
    book,
    changed,
    decide,
    entry,
    facts,
    incident,
    machine,
    record,
)

MINUTE = timedelta(minutes=1)
NEW = "aws:///us-east-1a/i-n9"


def ending(ago: timedelta = 3 * MINUTE, **more: Any) -> Entry:
    tried = entry(tried=("reboot",), boots=(NOW - 2 * HOUR,))
    made = intend(machine(), tried, "replace", "token", "the kernel log says so", NOW - ago)
    return changed(made, intent=changed(made.intent, **more))


def look(seen: Seen, found: Entry | None = None, **more: Any) -> Step:
    closer = replace(CLOSER, seen=seen)
    return decide(machine(entry=found or ending(), closer=closer, **more), FULL)


def test_a_fresh_intent_is_its_writers_alone() -> None:
    step = decide(machine(entry=ending(timedelta(seconds=119))), FULL)
    assert (step.act, step.changed) == (Act.NONE, False)


def test_an_intent_that_nobody_followed_is_asked_about_first() -> None:
    step = decide(machine(entry=ending(), closer=None), FULL)
    assert step.act is Act.LOOK_CLOSER


def test_a_machine_that_ends_was_asked_and_is_not_asked_again() -> None:
    step = look(Seen.ENDING)
    assert step.act is Act.NONE
    assert step.entry is not None
    assert step.entry.intent is not None
    assert step.entry.intent.asked == NOW


def test_a_machine_that_runs_on_is_asked_if_every_guard_still_passes() -> None:
    assert look(Seen.RUNNING).act is Act.TERMINATE


@pytest.mark.parametrize(
    "more",
    [
        {"record": record(incident(state=State.CLOSED, ended=NOW, why="tested well"))},
        {"record": record(incident(state=State.DISMISSED, ended=NOW))},
        {"hold": "held by bob"},
        {"state": "released"},
        {"view": None},
    ],
)
def test_an_intent_whose_reason_is_gone_is_withdrawn(more: dict[str, Any]) -> None:
    step = look(Seen.RUNNING, **more)
    assert step.act is Act.WITHDRAW
    assert step.entry is not None
    assert step.entry.intent is None
    assert step.entry.phase in (Phase.SICK, Phase.CLOSED)
    assert [d.action for d in step.decisions] == [Action.WITHDRAW]


def test_what_was_asked_is_waited_for_and_asked_again_only_after_half_an_hour() -> None:
    assert look(Seen.RUNNING, ending(asked=NOW - 29 * MINUTE)).act is Act.NONE
    assert look(Seen.RUNNING, ending(asked=NOW - 30 * MINUTE)).act is Act.TERMINATE


def test_a_refusal_is_asked_again_at_its_time_and_not_before() -> None:
    refused = ending(said="throttled", again=NOW + MINUTE)
    assert look(Seen.RUNNING, refused).act is Act.NONE
    assert decide(machine(entry=refused), FULL, NOW + MINUTE).act is Act.TERMINATE


def test_that_a_cloud_does_not_answer_or_never_knew_it_is_no_end() -> None:
    unknown = replace(CLOSER, seen=Seen.UNKNOWN, account="")
    asked = ending(29 * MINUTE, asked=NOW - 29 * MINUTE)
    for closer in (unknown, replace(unknown, says="AuthFailure")):
        step = decide(machine(entry=asked, closer=closer), FULL)
        assert (step.act, step.changed) == (Act.NONE, False)


@pytest.mark.parametrize("seen", [Seen.UNKNOWN, Seen.STOPPED])
def test_an_end_of_which_nothing_is_heard_is_told_once_with_the_clouds_words(seen: Seen) -> None:
    """Also when its seven days, and all that is told of them, are over."""
    silent = replace(CLOSER, seen=seen, account="", says="ExpiredToken")
    asked = changed(ending(30 * MINUTE, asked=NOW - 30 * MINUTE), began=NOW - 9 * DAY, warned=5)
    step = decide(machine(entry=asked, closer=silent), FULL)
    (said,) = step.decisions
    assert (said.action, step.act) == (Action.HOLD, Act.NONE)
    assert said.reason.endswith("and is not gone: ExpiredToken")
    assert step.entry is not None
    assert (step.entry.phase, step.entry.ended) == (Phase.ENDING, None)
    again = decide(machine(entry=step.entry, closer=silent), FULL, NOW + HOUR)
    assert (again.decisions, again.act) == ((), Act.NONE)


def test_the_clouds_word_ends_it_and_what_held_its_volumes_is_let_go() -> None:
    step = look(Seen.GONE)
    assert step.act is Act.RELEASE
    assert step.entry is not None
    assert (step.entry.phase, step.entry.ended) == (Phase.ENDED, NOW)
    assert step.answer == (
        "dev.groundcrew.vm.terminated",
        {"node": "n1", "machine": MACHINE, "why": "the kernel log says so"},
    )


def by(way: str, seen: Seen, *, at: timedelta = 0 * MINUTE, **more: Any) -> Step:
    asked = ending(asked=NOW - 3 * MINUTE, way=way, **more)
    closer = replace(CLOSER, seen=seen, way=way, account=way)
    return decide(machine(entry=asked, closer=closer), FULL, NOW + at)


@pytest.mark.parametrize("way", ["event", "cluster-api"])
def test_a_node_that_is_gone_is_the_end_of_its_machine_only_by_the_word_of_who_runs_it(
    way: str,
) -> None:
    """Anybody may delete a Node. An owner's word is that it has taken the machine; Cluster API's
    is that it has no such Machine."""
    step = by(way, Seen.GONE)
    assert step.entry is not None
    if way == "cluster-api":
        assert step.entry.phase is Phase.ENDED
        return
    assert (step.act, step.answer, step.entry.phase) == (Act.NONE, None, Phase.SICK)
    assert step.entry.ended is None
    assert "nobody says that the machine has ended" in step.decisions[0].reason
    taken = by(way, Seen.ENDING).entry
    assert taken is not None
    assert taken.intent is not None
    gone = by(way, Seen.GONE, taken=taken.intent.taken)
    assert gone.entry is not None
    assert gone.entry.phase is Phase.ENDED


@pytest.mark.parametrize(("way", "most"), [("event", 2), ("ec2", 10)])
def test_who_takes_it_again_and_again_and_does_nothing_is_not_asked_for_ever(
    way: str, most: int
) -> None:
    late = 30 * MINUTE
    assert by(way, Seen.RUNNING, at=late, tries=most - 2).act is Act.TERMINATE
    step = by(way, Seen.RUNNING, at=late, tries=most - 1)
    assert step.act is Act.NONE
    assert f"asked to end {most} times by way of {way}" in step.decisions[0].reason
    told = decide(
        machine(entry=step.entry, closer=replace(CLOSER, way=way)), FULL, NOW + late + HOUR
    )
    assert (told.act, told.decisions, told.changed) == (Act.NONE, (), False)


def ended(**more: Any) -> Entry:
    gone = look(Seen.GONE).entry
    assert gone is not None
    return changed(gone, released=True, **more)


def joined(**more: Any) -> Joined:
    made: dict[str, Any] = {"node": "n9", "machine": NEW, "pool": "gpu", "created": NOW}
    return Joined(**(made | more))


def follow(*nodes: Joined, at: timedelta = 10 * MINUTE, **more: Any) -> Step:
    gone = machine(view=None, record=None, closer=None, entry=ended())
    return decide(gone, FULL, NOW + at, joined=nodes, **more)


def test_a_replacement_that_serves_closes_it() -> None:
    step = follow(joined())
    assert step.entry is not None
    assert (step.entry.phase, step.entry.replacement) == (Phase.CLOSED, NEW)
    assert [d.action for d in step.decisions] == [Action.REPLACED]


@pytest.mark.parametrize(
    "other",
    [
        joined(waits_for="has its startup taint"),
        joined(pool="a100"),
        joined(created=NOW - HOUR),
        joined(machine=MACHINE),
        joined(machine=""),
    ],
)
def test_another_node_is_no_replacement(other: Joined) -> None:
    step = follow(other)
    assert (step.changed, step.decisions) == (False, ())
    late = follow(other, at=HOUR)
    assert [d.action for d in late.decisions] == [Action.MISSING]
    assert late.entry is not None
    gone = machine(view=None, record=None, closer=None, entry=late.entry)
    assert decide(gone, FULL, NOW + 2 * HOUR, joined=(other,)).decisions == ()


def test_where_machines_start_on_demand_what_joined_since_the_drain_replaces_it() -> None:
    """Karpenter starts one when the evicted pods want one, an hour before the end is asked for."""
    drained = NOW - 2 * HOUR
    gone = ended(owner="karpenter", drained_from=drained)

    def follow(*nodes: Joined, at: timedelta = 10 * MINUTE) -> Step:
        one = machine(view=None, record=None, closer=None, entry=gone)
        return decide(one, FULL, NOW + at, joined=nodes)

    (said,) = follow(joined(created=drained + MINUTE)).decisions
    assert said.action is Action.REPLACED
    assert follow(joined(created=drained - MINUTE)).decisions == ()
    (said,) = follow(at=HOUR).decisions
    assert said.action is Action.MISSING
    assert "Karpenter starts one where pods want one" in said.reason


def test_an_end_that_takes_long_is_told_once_with_what_it_waits_for() -> None:
    assert look(Seen.ENDING, ending(asked=NOW - HOUR, taken=NOW - 29 * MINUTE)).decisions == ()
    step = look(Seen.ENDING, ending(asked=NOW - HOUR, taken=NOW - 30 * MINUTE))
    (said,) = step.decisions
    assert said.action is Action.HOLD
    assert CLOSER.says in said.reason
    assert look(Seen.ENDING, step.entry).decisions == ()


def test_that_the_seven_days_run_out_is_told_with_what_the_end_waits_for() -> None:
    late = changed(ending(asked=NOW - HOUR), began=NOW - 4 * DAY)
    blind = decide(machine(entry=late, closer=None), FULL)
    assert (blind.act, blind.decisions) == (Act.LOOK_CLOSER, ())
    (said,) = look(Seen.ENDING, late).decisions
    assert said.action is Action.AT_RISK
    assert CLOSER.says in said.reason


def test_the_same_hardware_under_another_name_is_no_replacement_and_is_told() -> None:
    gone = machine(view=None, record=None, closer=None, entry=ended(gpus=("GPU-1", "GPU-2")))
    step = decide(gone, FULL, NOW + MINUTE, joined=(joined(gpus=("GPU-2",)),))
    assert [d.action for d in step.decisions] == [Action.RETURNED]
    assert step.answer is not None
    assert step.answer[0] == "dev.groundcrew.hardware.returned"
    assert step.entry is not None
    assert step.entry.outcome.startswith("the same hardware came back as n9")
    other = decide(gone, FULL, NOW + MINUTE, joined=(joined(gpus=("GPU-3",)),))
    assert [d.action for d in other.decisions] == [Action.REPLACED]


def test_a_machine_on_the_host_of_one_that_ended_is_no_replacement_if_it_came_afterwards() -> None:
    gone = machine(view=None, record=None, closer=None, entry=ended(host="h-1"))
    step = decide(gone, FULL, NOW + MINUTE, joined=(joined(host="h-1"),))
    assert [d.action for d in step.decisions] == [Action.RETURNED]
    assert "n9 (aws:///us-east-1a/i-n9) is on host h-1 of" in step.decisions[0].reason
    for other, actions in (
        (joined(host="h-2"), [Action.REPLACED]),
        (joined(), [Action.REPLACED]),
        (joined(host="h-1", created=NOW - DAY), []),
    ):
        said = decide(gone, FULL, NOW + MINUTE, joined=(other,)).decisions
        assert [d.action for d in said] == actions


def test_hardware_is_known_again_long_after_its_replacement_serves() -> None:
    over = ended(host="h-1", gpus=("GPU-1",)).close("replaced by n8 (x)", NOW, "x")
    books = {"": book(), "gpu": book(machines={MACHINE: over})}

    def back(**more: Any) -> list[str]:
        seen = facts(joined=(joined(created=NOW + 9 * DAY, **more),), books=books)
        return [why for _, _, why in returned.find(seen)]

    assert back() == []
    assert back(host="h-1", marked=True) == []
    for own in ({"gpus": ("GPU-1",)}, {"host": "h-1"}):
        assert back(machine=MACHINE, **own) == [], "a Node of the machine itself"
    assert back(gpus=("GPU-1",))[0].startswith(f"GPU GPU-1 was in {MACHINE} (node n1)")
    assert back(host="h-1")[0].startswith(f"host h-1 was that of {MACHINE} (node n1)")


def test_the_seven_days_run_until_another_one_serves() -> None:
    gone = machine(
        view=None,
        record=None,
        closer=None,
        entry=ended(began=NOW - 5 * DAY, warned=1, missing=True),
    )
    waits = joined(waits_for="is not ready")
    step = decide(gone, FULL, NOW + HOUR, joined=(waits,))
    (said,) = step.decisions
    assert said.action is Action.AT_RISK
    assert said.reason == (
        "1 d 23 h left of the seven days; node: it has ended, and n9 has joined and is not ready"
    )
    assert step.answer is not None
    assert step.answer[0] == "dev.groundcrew.sla.at-risk"
    again = decide(replace(gone, entry=step.entry), FULL, NOW + HOUR, joined=(waits,))
    assert again.decisions == ()
    (said,) = decide(
        replace(gone, entry=step.entry), FULL, NOW + HOUR, joined=(joined(),)
    ).decisions
    assert said.action is Action.REPLACED


def test_what_held_its_volumes_is_let_go_before_it_is_over() -> None:
    """Its replacement may serve before its Node could be deleted: a lost race."""
    for hardware in ((), ("GPU-1",)):
        kept = changed(ended(gpus=("GPU-1",)), released=False)
        gone = machine(view=None, record=None, closer=None, entry=kept)
        step = decide(gone, FULL, NOW + MINUTE, joined=(joined(gpus=hardware),))
        assert (step.act, step.changed, step.decisions) == (Act.RELEASE, False, ())
    late = decide(gone, FULL, NOW + HOUR, joined=())
    assert (late.act, [d.action for d in late.decisions]) == (Act.RELEASE, [Action.MISSING])


def test_one_machine_replaces_one() -> None:
    taken = {"m": entry(phase=Phase.CLOSED, replacement=NEW)}
    books = {"": book(), "gpu": book(machines=taken)}
    assert not follow(joined(), books=books).changed


def test_nobody_waits_for_ever() -> None:
    told = ended(warned=5, missing=True)
    missing = machine(view=None, record=None, closer=None, entry=told)
    closed = decide(missing, FULL, NOW + 8 * DAY, joined=())
    assert closed.entry is not None
    assert closed.entry.over
    (said,) = closed.decisions
    assert said.action is Action.MISSING
    assert said.reason.endswith("no node has joined its pool; it is waited for no longer")
