"""The drain annotation: short, of one boot of one machine, and rewritten only for news."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.rules import drain_state
from functions.rules.drain_state import MAX_BYTES, DrainState, State, Unreadable, same_news

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)
times = st.datetimes(datetime(2026, 1, 1), datetime(2027, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
words = st.text(max_size=300)
states = st.builds(
    DrainState,
    state=st.sampled_from(State),
    started=times,
    changed=times,
    provider_id=st.text(max_size=80),
    uid=st.text(max_size=40),
    boot=st.text(max_size=40),
    deadline=st.none() | times,
    look_again=st.none() | times,
    blocked_by=st.lists(words, max_size=9).map(drain_state.blockers),
    evicted=st.integers(0, 10_000),
    warned=st.lists(words, max_size=20).map(tuple),
    returned=st.dictionaries(st.uuids().map(str), st.integers(0, 3), max_size=20),
    extra=st.dictionaries(st.sampled_from(["later", "note"]), words),
)


def state(**fields: Any) -> DrainState:
    made: dict[str, Any] = {"state": State.DRAINING, "started": NOW, "changed": NOW}
    return DrainState(**{**made, **fields})


@given(states)
def test_what_is_written_is_short_and_reads_back(found: DrainState) -> None:
    text = drain_state.encode(found)
    assert len(text.encode()) <= MAX_BYTES
    back = drain_state.decode(text)
    assert (back.state, back.started, back.evicted) == (found.state, found.started, found.evicted)
    assert drain_state.encode(back) == text, "writing it again changes nothing"


def test_a_usual_state_loses_nothing() -> None:
    full = state(
        provider_id="aws:///us-east-1a/i-1",
        uid="u",
        boot="b",
        deadline=NOW,
        blocked_by=("shop/web-1: has no controller",),
        evicted=3,
        warned=("gang shop/x",),
        returned={"uid": 1},
    )
    assert drain_state.decode(drain_state.encode(full)) == full


def test_fields_of_a_newer_version_are_kept() -> None:
    raw = {**json.loads(drain_state.encode(state())), "v": 3, "later": ["a"]}
    again = json.loads(drain_state.encode(drain_state.decode(json.dumps(raw))))
    assert (again["v"], again["later"]) == (3, ["a"])


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[]", "3", "null", '{"state":"draining"}',
        '{"state":"flying","started":"2026-03-02T12:00:00Z","changed":"2026-03-02T12:00:00Z"}',
        '{"state":"draining","started":"2026-03-02T12:00:00","changed":"2026-03-02T12:00:00Z"}',
        '{"state":"draining","started":"9999-03-02T12:00:00Z","changed":"2026-03-02T12:00:00Z"}',
        '{"state":"draining","started":3,"changed":"2026-03-02T12:00:00Z"}',
    ],
)  # fmt: skip
def test_what_is_no_state_is_unreadable(text: str) -> None:
    with pytest.raises(Unreadable):
        drain_state.decode(text)


@pytest.mark.parametrize(
    ("provider_id", "uid", "boot", "same"),
    [
        ("p", "u", "b", True),
        ("p", "another uid", "b", True),
        ("another machine", "u", "b", False),
        ("p", "u", "another boot", False),
        ("p", "u", "", True),
        ("", "u", "b", True),
        ("", "another uid", "b", False),
    ],
)
def test_a_drain_belongs_to_a_boot_of_a_machine(
    provider_id: str, uid: str, boot: str, same: bool
) -> None:
    found = state(provider_id="p", uid="u", boot="b")
    assert found.belongs_to(provider_id=provider_id, uid=uid, boot=boot) is same


def test_times_of_looking_are_no_news() -> None:
    old = state(look_again=NOW)
    later = msgspec.structs.replace(
        old, look_again=NOW + timedelta(minutes=1), changed=NOW + timedelta(minutes=1)
    )
    assert same_news(old, later)
    assert not same_news(old, msgspec.structs.replace(old, evicted=1))
    assert not same_news(old, msgspec.structs.replace(old, state=State.BLOCKED))


def test_many_blockers_are_cut_and_counted() -> None:
    few = drain_state.blockers(f"pod-{n}" + "x" * 500 for n in range(9))
    assert len(few) == 6
    assert few[-1] == "and 4 more"
    assert all(len(text) <= 200 for text in few)
