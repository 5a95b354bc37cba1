"""The ConfigMap that holds the pauses: read with its mistakes, written by compare-and-set."""

from dataclasses import dataclass, field

import msgspec

from functions.gateways.kubernetes import errors, types
from functions.rules import keys
from functions.rules.pause import CLUSTER, Pause
from functions.steps import active
from infra.cli.connect import Refused, Session, no_namespace


@dataclass(frozen=True)
class Pauses:
    config_map: types.ConfigMap | None
    """As read, to write against; None when there is none yet."""
    standing: dict[str, Pause] = field(default_factory=dict)
    """By `pause.key`, whether they are over or not."""
    unreadable: dict[str, str] = field(default_factory=dict)
    """Key -> what is wrong. Each stops everything until it is gone."""


def read(session: Session) -> Pauses:
    try:
        found = session.cluster.get_config_map(session.namespace, active.PAUSE_NAME)
    except errors.NotFound:
        return Pauses(None)
    standing: dict[str, Pause] = {}
    unreadable: dict[str, str] = {}
    for name, text in (found.data or {}).items():
        try:
            standing[name] = msgspec.json.decode(text, type=Pause)
        except msgspec.DecodeError as problem:
            unreadable[name] = str(problem)
    return Pauses(found, standing, unreadable)


def write(session: Session, read: Pauses, pauses: dict[str, Pause], keep: dict[str, str]) -> None:
    """``pauses`` instead of what stands there; ``keep`` are unreadable ones, left as they are."""
    data = {name: msgspec.json.encode(pause).decode() for name, pause in pauses.items()} | keep
    labels = {keys.PART: "pause"}
    if read.config_map:
        session.cluster.replace_config_map_data(read.config_map, data, labels)
        return
    try:
        session.cluster.create_config_map(session.namespace, active.PAUSE_NAME, data, labels)
    except errors.NotFound as problem:
        raise no_namespace(session.namespace) from problem
    except errors.Conflict as problem:
        raise Refused("somebody else paused at the same time: run it again") from problem


def where(name: str) -> str:
    """What a pause of that key stops: ``the whole cluster``, ``pool h100``."""
    return "the whole cluster" if name == CLUSTER else f"pool {pool_of(name)}"


def pool_of(name: str) -> str:
    """The pool of a pause's key; empty for the cluster's."""
    return name.partition(".")[2]
