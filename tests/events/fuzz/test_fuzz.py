"""However damaged a recorded event is, it is refused in words or understood, and names nobody whom
it does not name. A short run here; ``python -m tests.events.fuzz --seconds 600`` is a long one."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from events import registry
from events.errors import EventError
from events.notice import Identity
from events.recording import Recording
from tests.events.fuzz import judge, mutate
from tests.events.fuzz.corpus import corpus

EVERYTHING = [recorded for found in corpus().values() for recorded in found]


@pytest.mark.parametrize("name", sorted(corpus()))
@settings(max_examples=40, deadline=None)
@given(choose=st.randoms(use_true_random=False))
def test_a_damaged_event_is_refused_or_understood_and_nobody_else_is_accused(
    name: str, choose: random.Random
) -> None:
    recorded = choose.choice(corpus()[name])
    judge.understood(mutate.damaged(recorded, choose, EVERYTHING))


@pytest.mark.parametrize("name", sorted(corpus()))
def test_the_judge_finds_nothing_wrong_with_what_is_recorded(name: str) -> None:
    for recorded in corpus()[name]:
        judge.understood(recorded)


@settings(max_examples=300, deadline=None)
@given(
    body=st.binary(max_size=300) | st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(max_size=9), st.lists
    ).map(lambda value: str(value).encode()),
    path=st.sampled_from(["/", *(f"/from/{name}" for name in sorted(registry.RAW))]),
)  # fmt: skip
def test_what_is_no_event_at_all_is_refused_in_words(body: bytes, path: str) -> None:
    judge.understood(Recording(path=path, body=body))


def test_the_corpus_has_every_source_that_is_registered() -> None:
    assert {source.name for source in registry.SOURCES} <= set(corpus())


def test_the_judge_sees_an_identity_that_is_not_in_the_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from events.sources import ec2

    monkeypatch.setattr(ec2, "identity", lambda envelope: Identity(instance_id="i-999"))
    (recorded,) = (one for one in corpus()["ec2_rebalance"] if b"instance-id" in one.body)
    with pytest.raises(AssertionError, match="i-999"):
        judge.understood(recorded)


def test_the_judge_lets_through_what_a_source_must_not_raise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(event: object) -> None:
        raise KeyError("x")

    monkeypatch.setattr(registry, "read", broken)
    with pytest.raises(KeyError):
        judge.understood(corpus()["ping"][0])


def test_damage_is_done_and_is_the_same_from_the_same_seed() -> None:
    recorded = corpus()["aws_health"][0]
    some = [mutate.damaged(recorded, random.Random(seed), EVERYTHING) for seed in range(200)]
    again = [mutate.damaged(recorded, random.Random(seed), EVERYTHING) for seed in range(200)]
    assert some == again
    results = [judge.understood(one) for one in some]
    refused = sum(isinstance(result, EventError) for result in results)
    # Neither only noise that is refused at the door, nor damage that changes nothing.
    assert 20 < refused < 180
    assert len({one.body for one in some}) > 100
