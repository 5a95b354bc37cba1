"""Trigger filters, as Knative's own filter was measured to treat them."""

from typing import Any

import pytest

from events.cloudevent import CloudEvent
from infra.local import filters

EVENT = CloudEvent(
    id="1",
    source="/p/1",
    type="t.x",
    subject="/g/h",
    extensions={"kind": "Node", "namespace": ""},
)


def _takes(*entries: object) -> bool:
    return filters.of_trigger({"filters": list(entries)})(EVENT)


@pytest.mark.parametrize(
    ("entry", "taken"),
    [
        ({"exact": {"type": "t.x"}}, True),
        ({"exact": {"type": "t"}}, False),
        ({"exact": {"type": "t.x", "kind": "Pod"}}, False),
        ({"exact": {"specversion": "1.0"}}, True),
        ({"prefix": {"type": "t."}}, True),
        ({"prefix": {"type": "x"}}, False),
        ({"suffix": {"subject": "/h"}}, True),
        ({"suffix": {"subject": "/g"}}, False),
        ({"not": {"exact": {"type": "t.x"}}}, False),
        ({"any": [{"exact": {"type": "no"}}, {"prefix": {"source": "/p"}}]}, True),
        ({"any": [{"exact": {"type": "no"}}, {"prefix": {"source": "/q"}}]}, False),
        ({"all": [{"exact": {"kind": "Node"}}, {"prefix": {"source": "/p"}}]}, True),
        ({"all": [{"exact": {"kind": "Node"}}, {"prefix": {"source": "/q"}}]}, False),
    ],
)
def test_each_dialect_takes_what_knative_takes(entry: dict[str, Any], taken: bool) -> None:
    assert _takes(entry) is taken


def test_an_attribute_that_the_event_lacks_matches_nothing_but_a_not() -> None:
    assert not _takes({"prefix": {"severity": "e"}})
    assert _takes({"not": {"exact": {"severity": "evict"}}})


def test_all_entries_of_filters_must_match() -> None:
    assert _takes({"exact": {"type": "t.x"}}, {"exact": {"kind": "Node"}})
    assert not _takes({"exact": {"type": "t.x"}}, {"exact": {"kind": "Pod"}})


def test_a_trigger_without_filters_takes_everything() -> None:
    assert filters.of_trigger({})(EVENT)


def test_filters_win_over_the_older_filter() -> None:
    older = {"attributes": {"type": "nope"}}
    assert not filters.of_trigger({"filter": older})(EVENT)
    assert filters.of_trigger({"filter": older, "filters": [{"exact": {"type": "t.x"}}]})(EVENT)


def test_an_empty_value_in_the_older_filter_means_that_the_attribute_is_there() -> None:
    assert filters.of_trigger({"filter": {"attributes": {"subject": ""}}})(EVENT)
    assert not filters.of_trigger({"filter": {"attributes": {"severity": ""}}})(EVENT)


@pytest.mark.parametrize(
    ("entry", "place"),
    [
        ({"cesql": "type = 't.x'"}, r"spec.filters\[0\].cesql: CESQL drops"),
        ({"exakt": {"type": "t.x"}}, r"spec.filters\[0\].exakt: no such filter"),
        ({"exact": {}}, r"spec.filters\[0\].exact: must map"),
        ({"exact": {"type": ""}}, r"spec.filters\[0\].exact: must map"),
        ({"any": []}, r"spec.filters\[0\].any: must be a list"),
        (
            {"exact": {"type": "a"}, "prefix": {"type": "b"}},
            r"spec.filters\[0\]: must have exactly",
        ),
        ({"any": [{"not": {"regex": {"type": "."}}}]}, r"any\[0\].not.regex: no such filter"),
    ],
)
def test_a_filter_that_cannot_be_meant_is_refused_by_its_place(
    entry: dict[str, Any], place: str
) -> None:
    with pytest.raises(filters.FilterError, match=place):
        filters.of_trigger({"filters": [entry]})
