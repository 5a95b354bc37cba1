"""Asking for a reboot, or for the end of a machine: the one place where it is done.

In this order, so that a crash between any two of these ends no machine twice, and none that may
not end:

1. a place under the caps, in the cluster's book;
2. the intent, with a token of this call, in the pool's book;
3. everything is read again, and every guard asked again;
4. the node says what is about to happen, in a patch that tests that it still is this machine, out
   of service by our mark, with the incidents as they were read;
5. the cloud is asked, if all this took seconds and not more;
6. what came of it, in the pool's book.

Whoever finds the intent of a dead call asks the cloud what became of it (`rules.replacing.ending`).
"""

import logging
from dataclasses import replace
from datetime import timedelta

import msgspec

from functions.gateways.kubernetes import errors, types
from functions.rules import replacing
from functions.rules.decision import Action, Decision
from functions.rules.replacing import MachineFacts, Step, guards
from functions.rules.replacing.book import Book, End, Entry, Phase, cut, with_entry
from functions.rules.replacing.case import Case
from functions.rules.replacing.clock import faults
from functions.rules.replacing.under_way import refused
from functions.rules.replacing.words import reason_of
from functions.steps import mark, terminate
from functions.steps.replacing import closer, gather, note
from functions.steps.replacing.crew import Crew, Lost, without_end

log = logging.getLogger(__name__)

PROMPT_SECONDS = 15.0
"""From the intent to the asking. Another call takes an intent over after two minutes: what is asked
later than this would be asked by two."""
MOST_TRIES = 10
"""Refusals that pass by themselves are asked again each minute; after so many, each hour."""
MOST_DAILY = MOST_TRIES + 7 * 24
"""What was refused for a week on end is asked once a day."""
DAILY = timedelta(days=1)


def act(crew: Crew, step: Step, node: types.Node | None) -> list[Decision]:
    """Take ``step``'s rung, and say what came of it. Raises `Lost` when another call was faster."""
    one, entry = step.facts, step.entry
    if node is None or entry is None:
        return []
    token = crew.token()
    ends = step.rung == "replace"
    if ends:
        _take_place(crew, one, token)
    intended = _intend(crew, step, entry, token)
    began = crew.clock.monotonic()
    # First, since it asks the cloud, which may take seconds: what people say is read last.
    way, why = _way(crew, one, node, step, token)
    fresh, fresh_node = one, None
    if not why:
        fresh, fresh_node, why = _look_again(crew, step, intended)
    if why or fresh_node is None:
        _take_back(crew, one, intended, entry)
        says = f"at the last moment: {why}"
        return [replacing.say(one, Action.HOLD, says, blocked_by=("last look",))]
    try:
        note.announce(crew, fresh_node, intended)
    except (errors.TestFailed, errors.NotFound):
        _take_back(crew, one, intended, entry)
        says = "at the last moment: somebody else has changed the node"
        return [replacing.say(one, Action.HOLD, says, blocked_by=("last look",))]
    if crew.clock.monotonic() - began > PROMPT_SECONDS:
        return []
    subject = closer.subject(fresh, fresh_node, token)
    if ends:
        asked = way.terminate(subject)
    else:
        asked = terminate.to_reboot(subject, way, crew.aws).reboot(subject)
    return [_write_down(crew, one, intended, asked, step)]


def withdraw(crew: Crew, one: MachineFacts, after: Entry) -> None:
    """An intent of which nothing came is taken out of the books. Raises `Lost`."""
    crew.put(one.pool, one.machine, one.entry, after)
    intent = one.entry.intent if one.entry else None
    if intent and intent.asked is None:  # else it was taken, and may end yet
        crew.edit("", without_end(one.machine, intent.token))


def _take_place(crew: Crew, one: MachineFacts, token: str) -> None:
    now = crew.now()

    def change(old: Book) -> Book:
        allowed = guards.caps(one, old, gather.of(crew, ()), crew.policy, now)
        if not allowed.passed:
            raise Lost(f"the caps are used up meanwhile: {allowed.says}")
        ends = {**old.ends, one.machine: End(at=now, pool=one.pool, token=token)}
        return msgspec.structs.replace(old, ends=ends)

    crew.edit("", change)


def _intend(crew: Crew, step: Step, entry: Entry, token: str) -> Entry:
    one, before = step.facts, step.facts.entry
    now = crew.now()
    made = replacing.intend(one, entry, step.rung, token, cut(reason_of(step.guards)), now)
    crew.put(one.pool, one.machine, before, made)
    return made


def _look_again(
    crew: Crew, step: Step, intended: Entry
) -> tuple[MachineFacts, types.Node | None, str]:
    """The machine as it is now, and why it may not be asked any more; empty: it may."""
    one = step.facts
    assert one.view is not None
    try:
        node = crew.cluster.get_node(one.view.name)
    except errors.NotFound:
        return one, None, "its Node is gone"
    # Last of all: what the node says is tested once more by the patch, a pause or a hold is not.
    crew.read()
    view = mark.view(node, crew.policy)
    if view.provider_id != one.machine or view.uid != one.view.uid:
        return one, None, f"{view.name} is another machine by now ({view.provider_id or 'none'})"
    fresh = replace(gather.machine_facts(crew, one.machine, node, view), closer=one.closer)
    if one.closer and one.closer.spares:
        # Another machine may end for the same idle node by now: its intent stands in the book.
        fresh = replace(fresh, closer=replace(one.closer, spares=closer.spares(crew, fresh)))
    facts = gather.of(crew, (fresh,))
    found = faults(fresh.record)
    # As it was before the intent: that is what the guards are asked about.
    judge = guards.for_end if step.rung == "replace" else guards.for_reboot
    before = step.entry or intended
    checked = judge(Case(fresh, before, found, facts, crew.policy, crew.now()))
    holding = [v for v in checked if not v.passed]
    return fresh, node, "; ".join(f"{v.guard.value}: {v.says}" for v in holding)


def _way(
    crew: Crew, one: MachineFacts, node: types.Node, step: Step, token: str
) -> tuple[terminate.Way, str]:
    """Who is asked; and why nobody is, where it is not who was looked at."""
    subject = closer.subject(one, node, token)
    way = terminate.choose(subject, crew.policy.way_of(one.pool), crew.aws, crew.cluster)
    known = one.closer.way if one.closer else ""
    why = "" if way.name == known else f"it is of {way.name} by now, and was of {known}"
    return way, why


def _write_down(
    crew: Crew, one: MachineFacts, intended: Entry, asked: terminate.Asked, step: Step
) -> Decision:
    now = crew.now()
    intent = intended.intent
    assert intent is not None
    again = None if asked.done else _again(asked, step.rung, intent.tries)
    answered = msgspec.structs.replace(
        intent,
        asked=now if asked.done and not asked.perhaps else None,
        said=cut(asked.says),
        again=now + again if again else None,
    )
    after = msgspec.structs.replace(intended, intent=answered, changed=now)
    if not asked.done and step.rung == "reboot":
        after = refused(intended, answered, perhaps=asked.perhaps, now=now)
    try:
        crew.put(one.pool, one.machine, intended, after)
    except Lost as lost:
        # It was asked all the same, and the cloud will say so to whoever looks.
        log.warning("%s: what came of asking was not written down: %s", one.machine, lost)
    verb = {"reboot": "to reboot", "replace": "to end"}[step.rung]
    if not asked.done:
        return replacing.say(
            one,
            Action.HOLD,
            f"asked {verb}, refused: {asked.says}",
            blocked_by=("refused",),
            look_again=now + again if again else None,
        )
    action = Action.REBOOT if step.rung == "reboot" else Action.TERMINATE
    return replacing.say(one, action, f"{asked.says} ({intent.why})")


def _again(asked: terminate.Asked, rung: str, tries: int) -> timedelta | None:
    """How long after a refusal it is asked again; None: not at all."""
    if rung == "reboot" and (asked.perhaps or asked.again != terminate.SOON):
        return None  # another boot ID tells, or it can never be rebooted so
    if tries >= MOST_DAILY:
        return DAILY
    return terminate.LATER if tries >= MOST_TRIES or asked.again is None else asked.again


def _take_back(crew: Crew, one: MachineFacts, intended: Entry, before: Entry) -> None:
    """Nothing was asked: the books are as they were before the intent."""
    old = step_back(one.entry, before)

    def change(book: Book) -> Book:
        if book.machines.get(one.machine) != intended:
            raise Lost(f"{one.machine} was decided about by another call")
        return with_entry(book, one.machine, old)

    crew.edit(one.pool, change)
    if intended.phase is Phase.ENDING and intended.intent:
        crew.edit("", without_end(one.machine, intended.intent.token))


def step_back(known: Entry | None, before: Entry) -> Entry:
    """What stands in the book when an intent is taken back: sick, as before it."""
    return msgspec.structs.replace(before, phase=Phase.SICK, intent=None) if known else before
