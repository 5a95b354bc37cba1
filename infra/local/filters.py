"""Trigger filters as Knative means them: exact, prefix, suffix, all, any, not.

A filter is read once into a predicate. CESQL is refused here and so in our manifests: in Knative
an expression that fails while it runs drops the event without a word.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from events.cloudevent import CloudEvent

Predicate = Callable[[CloudEvent], bool]


class FilterError(ValueError):
    """The manifest's filter is not one that we read; the message names the place in it."""


def of_trigger(spec: Mapping[str, Any], where: str = "spec") -> Predicate:
    """The predicate of a Trigger's spec: ``filters`` (all must match) if it has any, else the
    older ``filter.attributes``, else everything. Raises `FilterError`."""
    if spec.get("filters"):
        return _all(_list(spec["filters"], f"{where}.filters"))
    attributes = (spec.get("filter") or {}).get("attributes") or {}
    return _all([_legacy(name, value) for name, value in attributes.items()])


def attribute(event: CloudEvent, name: str) -> str | None:
    """A context attribute or extension as filters see it; None when the event has none."""
    if name in ("id", "source", "type", "subject", "datacontenttype"):
        return getattr(event, name) or None
    if name == "specversion":
        return "1.0"
    return event.extensions.get(name)


def _legacy(name: str, value: str) -> Predicate:
    # The older form: an empty value means that the attribute is there, whatever it says.
    if value == "":
        return lambda event: attribute(event, name) is not None
    return lambda event: attribute(event, name) == value


def _list(filters: Any, where: str) -> list[Predicate]:
    if not isinstance(filters, Sequence) or isinstance(filters, str) or not filters:
        raise FilterError(f"{where}: must be a list of at least one filter")
    return [_read(entry, f"{where}[{index}]") for index, entry in enumerate(filters)]


def _read(entry: Any, where: str) -> Predicate:
    if not isinstance(entry, Mapping) or len(entry) != 1:
        raise FilterError(f"{where}: must have exactly one of exact, prefix, suffix, all, any, not")
    ((dialect, value),) = entry.items()
    where = f"{where}.{dialect}"
    if dialect == "all":
        return _all(_list(value, where))
    if dialect == "any":
        return _any(_list(value, where))
    if dialect == "not":
        part = _read(value, where)
        return lambda event: not part(event)
    if dialect == "cesql":
        raise FilterError(f"{where}: CESQL drops an event silently when it fails; use the others")
    if dialect not in _COMPARE:
        raise FilterError(f"{where}: no such filter")
    if not isinstance(value, Mapping) or not value or not all(value.values()):
        raise FilterError(f"{where}: must map attribute names to texts that are not empty")
    return _all([_compare(_COMPARE[dialect], name, text) for name, text in value.items()])


_COMPARE: dict[str, Callable[[str, str], bool]] = {
    "exact": str.__eq__,
    "prefix": str.startswith,
    "suffix": str.endswith,
}


def _compare(compare: Callable[[str, str], bool], name: str, text: str) -> Predicate:
    def matches(event: CloudEvent) -> bool:
        value = attribute(event, name)
        return value is not None and compare(value, text)

    if name == "type":  # the one that most filters ask for, of every event
        return lambda event: compare(event.type, text)
    return matches


# As loops and not as any() and all() over generators, which take twice as long: each event goes
# through all filters of all triggers.


def _any(parts: Sequence[Predicate]) -> Predicate:
    def matches(event: CloudEvent) -> bool:
        for part in parts:  # noqa: SIM110
            if part(event):
                return True
        return False

    return matches if len(parts) > 1 else parts[0]


def _all(parts: Sequence[Predicate]) -> Predicate:
    def matches(event: CloudEvent) -> bool:
        for part in parts:  # noqa: SIM110
            if not part(event):
                return False
        return True

    return matches if len(parts) != 1 else parts[0]
