"""Whose cordon it is: a person's claim on a node that was out of service before."""

from datetime import UTC, datetime, timedelta

import pytest

from functions.rules import claim
from functions.rules.claim import Claim
from functions.rules.incidents import Cordon

AT = datetime(2026, 3, 2, 12, tzinfo=UTC)
CORDON = Cordon(at=AT)
MADE = Claim(by="jane", at=AT + timedelta(minutes=1), over=AT)


def test_a_claim_holds_the_cordon_that_it_was_put_on() -> None:
    assert claim.on(CORDON, claim.encode(MADE)) == MADE


def test_a_claim_that_was_forgotten_does_not_hold_a_later_cordon() -> None:
    later = Cordon(at=AT + timedelta(days=3))
    assert claim.on(later, claim.encode(MADE)) is None
    of_a_free_node = Claim(by="jane", at=AT)
    assert claim.on(later, claim.encode(of_a_free_node)) is None


@pytest.mark.parametrize("text", [None, "", "{", "[]", '{"by": 3}', '{"at": "2026-03-02"}'])
def test_what_is_no_claim_holds_nothing(text: str | None) -> None:
    assert claim.decode(text) is None
    assert claim.on(CORDON, text) is None


FREE = Claim(by="jane", at=AT)
"""On a node that was in service."""


@pytest.mark.parametrize(
    ("cordon", "made", "unschedulable", "stands"),
    [
        pytest.param(None, FREE, True, True, id="taken, and nothing is wrong"),
        pytest.param(None, FREE, False, False, id="left behind by another way of uncordoning"),
        pytest.param(CORDON, MADE, True, True, id="taken on top of an incident"),
        pytest.param(None, MADE, True, True, id="that incident is over, and the cordon stayed"),
        pytest.param(Cordon(at=AT, theirs=True), FREE, True, True, id="an incident came later"),
        pytest.param(CORDON, FREE, True, False, id="left behind, and cordoned for an incident"),
        pytest.param(CORDON, None, True, False, id="no claim"),
    ],
)
def test_a_claim_stands_for_the_cordon_that_is_there_now(
    cordon: Cordon | None, made: Claim | None, unschedulable: bool, stands: bool
) -> None:
    text = claim.encode(made) if made else None
    found = claim.standing(cordon, text, unschedulable=unschedulable)
    assert found == (made if stands else None)
