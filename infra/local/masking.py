"""Leaving out of a recording what is nobody's business: the rules are in `masking.yaml`."""

import functools
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, unquote

import msgspec

from functions.rules import keys
from infra.local.masking_rules import Rules, Tree, fits, pattern_of, plain
from infra.local.pseudonyms import SECRET, Pseudonyms

DEEPEST = 12
"""JSON in a text in JSON in a text: so often it is looked into."""
_LABELS = ("labels", "matchLabels", "nodeSelector")
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_ORDINAL = re.compile(r"(.+)-(\d{1,6})")
_PATH = re.compile(r"(?<=/)(?P<kind>(?!apis/)[a-z]{2,}s)/(?P<name>[^/]+)")


class Masker:
    """``identities``: also the names of machines, namespaces and workloads."""

    def __init__(self, rules: Rules, key: bytes, *, identities: bool = False) -> None:
        self._rules = rules
        self._made = Pseudonyms(key)
        self._identities = identities
        self._pattern = pattern_of(rules.texts)
        self._machines: dict[str, str] = {}
        """Names of machines that were met, and their pseudonyms."""
        self._field = functools.cache(self._field_rule)
        self._label_kept = functools.cache(self._is_label_kept)
        self._short = functools.lru_cache(maxsize=65536)(self._patterns)

    # what it is asked for

    def headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        """Those that are kept, names in lower case."""
        kept = {name.lower(): value for name, value in headers.items()}
        about = kept.get("ce-kind", "")
        made = {}
        for name, value in kept.items():
            if not fits(name, self._rules.headers):
                continue
            if name == "content-type":
                made[name] = value
                continue
            attribute = name.removeprefix("ce-")
            percent = unquote(value)
            fresh = self._attribute(attribute, percent, about)
            if fresh is None:
                continue
            made[name] = value if fresh == percent else quote(fresh, safe=" /:@.,;=+_-")
        return made

    def path(self, path: str) -> str:
        return self._text(path, 0)

    def body(self, body: bytes) -> bytes | str:
        """JSON as JSON, other text as text; what is neither is left out."""
        try:
            decoded = msgspec.json.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            try:
                return self._text(body.decode(), 0)
            except UnicodeDecodeError:
                return ""
        if isinstance(decoded, str):
            # `events.recording` takes a bare string for the body itself.
            return msgspec.json.encode(self._text(decoded, 0)).decode()
        return msgspec.json.encode(self._value(decoded, "", 0))

    def object(self, item: Mapping[str, Any], kind: str = "") -> dict[str, Any]:
        """A Kubernetes object: of its fields those that are kept, and in them what may be.
        ``kind`` is that of the list it stands in."""
        kind = str(item.get("kind") or kind)
        rules = self._rules.kubernetes
        found: dict[str, Any] = _selected(rules.kinds.get(kind, rules.any), item)
        meta = found.get("metadata")
        labels = (meta.get("labels") if isinstance(meta, dict) else None) or {}
        if kind == "ConfigMap" and (not isinstance(labels, dict) or keys.PART not in labels):
            found.pop("data", None)
        if kind == "Event" and _about(found) != "Node":
            found.pop("message", None)
            found.pop("note", None)
        if self._identities and isinstance(meta, dict) and kind not in ("ConfigMap", "Event"):
            found["metadata"] = {
                **{key: value for key, value in meta.items() if key != "generateName"},
                "name": self._named(kind, str(meta.get("name", ""))),
            }
        masked: dict[str, Any] = self._kubernetes(found, "")
        return masked

    # JSON

    def _value(self, value: Any, key: str, depth: int) -> Any:
        if isinstance(value, str):
            return self._text(value, depth)
        if isinstance(value, list):
            return [self._value(one, key, depth) for one in value]
        if not isinstance(value, dict):
            return value
        if isinstance(value.get("metadata"), dict) and isinstance(value.get("kind"), str):
            if isinstance(value.get("items"), list):
                return self._list(value)
            return self.object(value)
        about = value.get("kind")
        made = {}
        for name, inside in value.items():
            rule = self._field(plain(name))
            if rule == "dropped":
                continue
            if self._identities and name == "name" and isinstance(about, str):
                rule = "machine" if about == "Node" else "workload"
            if rule:
                inside = self._by_rule(rule, inside, depth)
                if inside is _GONE:
                    continue
            else:
                inside = self._value(inside, name, depth)
            made[self._text(name, depth)] = inside
        return made

    def _list(self, value: Mapping[str, Any]) -> dict[str, Any]:
        kind = value["kind"].removesuffix("List")
        items = [self.object(one, kind) for one in value["items"] if isinstance(one, dict)]
        head = {name: value[name] for name in ("apiVersion", "kind") if name in value}
        return {**head, "metadata": {}, "items": items}

    def _by_rule(self, rule: str, value: Any, depth: int) -> Any:
        if value is None or isinstance(value, bool) or value == "":
            return value
        if isinstance(value, list):
            return [self._by_rule(rule, one, depth) for one in value]
        if isinstance(value, dict):
            if rule in ("secret", "person"):
                return _GONE
            return self._value(value, "", depth)
        if isinstance(value, int | float):
            if rule == "account" and isinstance(value, int):
                return int(self._made.digits(str(abs(value))))
            return 0 if rule in ("secret", "person") else value
        match rule:
            case "secret":
                return SECRET
            case "person":
                return self._person(value, depth)
            case "account":
                return self._made.account(value)
            case "machine":
                return self.machine(value, depth)
            case _:
                return self._workload(value, depth)

    def _person(self, value: str, depth: int) -> str:
        masked = self._text(value, depth)
        return self._made.name("person", value) if masked == value else masked

    # names of machines and of what runs on them

    def machine(self, value: str, depth: int = 0) -> str:
        """The pseudonym of a machine's name."""
        masked = self._text(value, depth)
        if masked != value or not _NAME.fullmatch(value):
            return masked
        made = self._made.name("node", value)
        if any(not letter.isalpha() for letter in value):
            # A name of letters alone might be a word, and stand for itself elsewhere.
            self._machines[value] = made
        return made

    def _workload(self, value: str, depth: int) -> str:
        """A pod of a StatefulSet keeps its ordinal, by which its controller knows it."""
        if value in self._rules.identities.public_names:
            return value
        if not _NAME.fullmatch(value):
            return self._text(value, depth)
        match = _ORDINAL.fullmatch(value)
        if match:
            return f"{self._made.name('work', match[1])}-{match[2]}"
        return self._made.name("work", value)

    def _named(self, kind: str, name: str) -> str:
        return self.machine(name) if kind == "Node" else self._workload(name, 0)

    def _attribute(self, name: str, value: str, kind: str) -> str | None:
        """An attribute of a CloudEvent in a header; None: left out."""
        rule = self._field(plain(name))
        if rule == "dropped":
            return None
        if self._identities and name == "name" and kind:
            return self._named(kind, value)
        if self._identities and name == "subject" and value.startswith("/apis/"):
            return _PATH.sub(self._segment, value)
        if rule:
            return str(self._by_rule(rule, value, 0))
        return self._text(value, 0)

    def _segment(self, match: re.Match[str]) -> str:
        kind = "Node" if match["kind"] == "nodes" else ""
        return f"{match['kind']}/{self._named(kind, match['name'])}"

    # Kubernetes objects, once selected

    def _kubernetes(self, value: Any, key: str) -> Any:
        if isinstance(value, str):
            if not self._identities:
                return self._text(value, 0)
            if key == "nodeName":
                return self.machine(value)
            return self._workload(value, 0) if key == "namespace" else self._text(value, 0)
        if isinstance(value, list):
            return [self._kubernetes(one, key) for one in value]
        if not isinstance(value, dict):
            return value
        if key in _LABELS:
            return {self._text(k, 0): self._label(k, v) for k, v in value.items()}
        if key == "annotations":
            kept = self._rules.kubernetes.annotations
            return {k: self._text(str(v), 0) for k, v in value.items() if fits(k, kept)}
        if key == "data":
            return self._value(value, key, 0)
        if isinstance(value.get("key"), str) and ("operator" in value or "effect" in value):
            return self._requirement(value)
        about = value.get("kind")
        made = {}
        for name, inside in value.items():
            if self._identities and name == "name" and isinstance(about, str):
                made[name] = self._named(about, str(inside))
            else:
                made[self._text(name, 0)] = self._kubernetes(inside, name)
        return made

    def _requirement(self, value: Mapping[str, Any]) -> dict[str, Any]:
        """A taint, a toleration, or a requirement of a selector."""
        made = dict(value)
        made["key"] = self._text(value["key"], 0)
        if "value" in value:
            made["value"] = self._label(value["key"], value["value"])
        if isinstance(value.get("values"), list):
            if value["key"] == "metadata.name":
                made["values"] = [
                    self._named("Node", str(one)) if self._identities else one
                    for one in value["values"]
                ]
            else:
                made["values"] = [self._label(value["key"], one) for one in value["values"]]
        return made

    def _label(self, key: str, value: Any) -> Any:
        if not isinstance(value, str) or not value:
            return value
        if self._identities and fits(key, self._rules.identities.labels):
            return self._machines.get(value) or self._workload(value, 0)
        return self._text(value, 0) if self._label_kept(key) else self._made.name("v", value)

    def _is_label_kept(self, key: str) -> bool:
        return fits(key, self._rules.kubernetes.labels)

    # texts

    def _text(self, text: str, depth: int) -> str:
        if len(text) < 4:
            return text
        if text.lstrip()[:1] in ("{", "[", '"') and depth < DEEPEST:
            try:
                inside = msgspec.json.decode(text)
            except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
                pass
            else:
                masked = self._value(inside, "", depth + 1)
                return text if masked == inside else msgspec.json.encode(masked).decode()
        if self._machines:
            text = _NAME.sub(self._known_machine, text)
        if "\\" in text:
            return self._escaped(text)
        return self._short(text) if len(text) <= 256 else self._patterns(text)

    def _escaped(self, text: str) -> str:
        """Of JSON that was cut, most likely: what its escapes stand for is looked at, too."""
        now, found = text, False
        for _ in range(DEEPEST):
            masked = self._patterns(now)
            found = found or masked != now
            now = _ESCAPE.sub(_unescaped, masked)
            if now == masked:
                break
        return now if found else text

    def _known_machine(self, match: re.Match[str]) -> str:
        name = match[0]
        if known := self._machines.get(name):
            return known
        first, dot, rest = name.partition(".")
        known = self._machines.get(first)
        return f"{known}{dot}{rest}" if known else name

    def _patterns(self, text: str) -> str:
        return self._pattern.sub(self._replaced, text)

    def _replaced(self, match: re.Match[str]) -> str:
        number = int((match.lastgroup or "r0")[1:])
        kind = self._rules.texts[number].kind
        whole = match[0]
        if f"it{number}" in self._pattern.groupindex:
            found = match[f"it{number}"]
            start, end = match.span(f"it{number}")
            offset = match.start()
            return whole[: start - offset] + self._instead(kind, found) + whole[end - offset :]
        return self._instead(kind, whole)

    def _instead(self, kind: str, text: str) -> str:
        made = self._made
        match kind:
            case "secret":
                return SECRET
            case "mail":
                return made.mail(text)
            case "account":
                return made.account(text)
            case "host":
                return self._host(text)
            case "address":
                return made.address(text)
            case "mac":
                return made.mac(text)
            case "uuid" if self._identities:
                return made.uuid(text)
            case "resource" if self._identities:
                return made.resource(text)
            case "uuid" | "resource" | "kept":
                return text
            case _:
                return made.name(kind, text)

    def _host(self, text: str) -> str:
        name, colon, port = text.rpartition(":")
        if not colon or not port.isdigit():
            name, colon, port = text, "", ""
        lower = name.lower()
        public = any(lower == one or lower.endswith("." + one) for one in self._rules.public_hosts)
        if "@" not in text and (public or lower in ("127.0.0.1", "[::1]")):
            return text
        return f"{self._made.host(name)}{colon}{port}"

    def _field_rule(self, name: str) -> str:
        fields = self._rules.fields
        if fits(name, fields.kept):
            return ""
        for rule in ("dropped", "secret", "person", "account"):
            if fits(name, getattr(fields, rule)):
                return rule
        if self._identities:
            for rule in ("machine", "workload"):
                if fits(name, getattr(self._rules.identities, rule)):
                    return rule
        return ""


_GONE = object()
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|(.))", re.DOTALL)


def _unescaped(match: re.Match[str]) -> str:
    if match[1]:
        letter = chr(int(match[1], 16))
        return letter if letter.isprintable() else " "
    return {"n": "\n", "r": "\n", "t": "\t", "b": " ", "f": " "}.get(match[2], match[2])


def _about(event: Mapping[str, Any]) -> str:
    about = event.get("involvedObject") or event.get("regarding")
    return str(about.get("kind")) if isinstance(about, dict) else ""


def _selected(tree: Tree | None, value: Any) -> Any:
    if not tree:
        return value
    if isinstance(value, list):
        return [_selected(tree, one) for one in value]
    if not isinstance(value, dict):
        return value
    return {key: _selected(tree[key], value[key]) for key in tree if key in value}
