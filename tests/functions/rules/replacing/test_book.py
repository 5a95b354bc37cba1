"""What is remembered of machines: read back as it was written, within its room."""

import json
from datetime import timedelta

import pytest

from functions.rules.replacing import intend
from functions.rules.replacing.book import (
    KEPT,
    Book,
    End,
    Phase,
    Unreadable,
    decode,
    encode,
    tidy,
)
from tests.support.facts import NOW
from tests.support.sick import DAY, book, entry, machine


def test_a_book_reads_back_as_it_was_written() -> None:
    asked = intend(machine(), entry(tried=("reboot",)), "replace", "t", "why", NOW)
    made = book(machines={"m": asked, "o": entry(phase=Phase.CLOSED)}, ends={"m": End(at=NOW)})
    assert decode(encode(made)) == made
    assert decode(None) == Book()


@pytest.mark.parametrize(
    "text", ["{", "[]", "{}", '{"v": 0}', '{"v": 1, "machines": {"m": {}}}', '{"v": "x"}']
)
def test_what_is_no_book_is_unreadable_and_never_an_empty_one(text: str) -> None:
    with pytest.raises(Unreadable):
        decode(text)


def test_fields_of_a_newer_version_are_kept() -> None:
    raw = json.loads(encode(book(machines={"m": entry()})))
    raw |= {"v": 2, "later": [1]}
    raw["machines"]["m"]["soon"] = {"a": "b"}
    again = json.loads(encode(decode(json.dumps(raw))))
    assert (again["v"], again["later"], again["machines"]["m"]["soon"]) == (2, [1], {"a": "b"})


def test_what_is_over_makes_room_and_what_is_not_stays_whatever_it_takes() -> None:
    over = {
        f"over-{n}": entry(phase=Phase.CLOSED, changed=NOW - n * timedelta(hours=1))
        for n in range(200)
    }
    running = {f"sick-{n}": entry() for n in range(200)}
    kept = decode(encode(book(machines=over | running), room=70_000)).machines
    assert set(running) <= set(kept)
    left = [name for name in kept if name.startswith("over-")]
    assert 0 < len(left) < 200
    assert "over-0" in left
    assert len(decode(encode(book(machines=running), room=100)).machines) == 200


def test_what_is_long_over_is_forgotten_and_nothing_else() -> None:
    old = entry(phase=Phase.CLOSED, changed=NOW - KEPT)
    late = entry(phase=Phase.CLOSED, changed=NOW - KEPT + timedelta(minutes=1))
    sick = entry(changed=NOW - 90 * DAY)
    found = book(
        machines={"old": old, "late": late, "sick": sick},
        ends={"a": End(at=NOW - DAY), "b": End(at=NOW - DAY + timedelta(minutes=1))},
    )
    tidied = tidy(found, NOW)
    assert set(tidied.machines) == {"late", "sick"}
    assert set(tidied.ends) == {"b"}
    assert tidy(tidied, NOW) is tidied
