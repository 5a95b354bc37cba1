"""Label selectors as Kubernetes reads them (apimachinery, ``LabelSelectorAsSelector``)."""

from collections.abc import Mapping

import msgspec


class Requirement(msgspec.Struct, frozen=True):
    key: str
    operator: str
    """``In``, ``NotIn``, ``Exists`` or ``DoesNotExist``."""
    values: tuple[str, ...] = ()

    def holds(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value is not None and value in self.values
            case "NotIn":
                # Also true of a pod without the label.
                return value is None or value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
            case _:
                return False


class Selector(msgspec.Struct, frozen=True):
    """Every label and requirement must hold. One that names nothing selects everything; no
    selector at all (None, where one may be given) selects nothing."""

    labels: Mapping[str, str] = {}
    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        return all(labels.get(key) == value for key, value in self.labels.items()) and all(
            requirement.holds(labels) for requirement in self.requirements
        )
