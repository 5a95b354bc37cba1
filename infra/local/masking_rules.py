"""The rules of `masking.yaml` as they are used: checked, and their patterns made one."""

import fnmatch
import re
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec

Tree = dict[str, Any]
"""Field -> what is kept of it; None: all."""

KINDS = ("secret", "uuid", "resource", "mail", "person", "account", "host", "mac", "address",
         "phone", "kept")  # fmt: skip


class MaskingError(ValueError):
    """The file is no set of rules; the message names the file and the field."""


class _Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A field that it does not know is a mistake."""


class Fields(_Section, frozen=True):
    kept: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    secret: tuple[str, ...] = ()
    person: tuple[str, ...] = ()
    account: tuple[str, ...] = ()


class Text(_Section, frozen=True):
    pattern: str
    kind: str = msgspec.field(name="as")


class Kubernetes(_Section, frozen=True):
    any: Tree
    kinds: dict[str, Tree]
    labels: tuple[str, ...] = ()
    annotations: tuple[str, ...] = ()


class Identities(_Section, frozen=True):
    machine: tuple[str, ...] = ()
    workload: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    public_names: tuple[str, ...] = ()


class Rules(_Section, frozen=True):
    version: int
    headers: tuple[str, ...]
    fields: Fields
    texts: tuple[Text, ...]
    kubernetes: Kubernetes
    public_hosts: tuple[str, ...] = ()
    identities: Identities = Identities()


def load(file: Path | None = None) -> Rules:
    """The rules in ``file``, or the project's own. Raises `MaskingError`."""
    import yaml

    own = resources.files("infra.local").joinpath("masking.yaml")
    name = str(file or "masking.yaml")
    try:
        text = file.read_text(encoding="utf-8") if file else own.read_text(encoding="utf-8")
        rules = msgspec.convert(yaml.safe_load(text), Rules)
    except (OSError, UnicodeDecodeError, yaml.YAMLError, msgspec.ValidationError) as problem:
        raise MaskingError(f"{name}: no rules for masking: {problem}") from problem
    if rules.version != 1:
        raise MaskingError(f"{name}: version: {rules.version} is not read, only 1")
    for index, one in enumerate(rules.texts):
        where = f"{name}: texts[{index}]"
        if one.kind not in KINDS:
            raise MaskingError(f"{where}.as: {one.kind!r} is none of {', '.join(KINDS)}")
        try:
            re.compile(one.pattern)
        except re.error as problem:
            raise MaskingError(f"{where}.pattern: {problem}") from problem
    return rules


def pattern_of(texts: tuple[Text, ...]) -> re.Pattern[str]:
    """All patterns as one; the group ``r<n>`` of the n-th has matched, in it ``it<n>`` is to be
    replaced where there is one."""
    parts = (
        f"(?P<r{n}>{one.pattern.replace('(?P<it>', f'(?P<it{n}>')})" for n, one in enumerate(texts)
    )
    return re.compile("|".join(parts))


def fits(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def plain(name: str) -> str:
    """A field's name as the rules spell it: ``User-Identity`` and ``userIdentity`` are one."""
    return re.sub(r"[^a-z0-9]", "", name.lower())
