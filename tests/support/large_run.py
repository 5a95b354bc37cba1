"""A made-up run of a large fleet, to see the report at a size that no scenario has."""

import random
from datetime import UTC, datetime
from typing import Any

from infra.local.report import model

START = datetime(2026, 3, 2, 8, tzinfo=UTC)
HOUR = 3_600_000
LENGTH = 7 * 24 * HOUR
CHECKS = ("AcceleratedHardwareReady", "xid-74", "NetworkingReady", "gpu-count")


def run(nodes: int = 3_000, faults: int = 1_200, seed: int = 7, teams: int = 0) -> model.Run:
    """``nodes`` in three pools, of which some 40 % see anything of ``faults`` faults. The first of
    ``teams`` teams is the only one that loses any."""
    chance = random.Random(seed)
    pools = ("h100", "a100", "l40s")
    names = [f"{pools[i % 3]}-{i // 3 + 1:04}" for i in range(nodes)]
    marks: list[model.Mark] = []
    states: dict[int, list[model.State]] = {}
    calls: list[model.Call] = []
    for _ in range(faults):
        node = chance.randrange(nodes)
        at = max([one.a for one in states.get(node, ())], default=0)
        at += chance.randrange(HOUR, LENGTH // 2)
        until = at + chance.randrange(HOUR, 20 * HOUR)
        if until < LENGTH:
            _fault(chance, node, at, until, marks, states.setdefault(node, []), calls)
    marks.sort(key=lambda mark: mark.t)
    made = tuple(
        model.Node(
            name=name,
            pool=name.partition("-")[0],
            team=f"team-{place % teams:02}" if teams else "",
            states=(model.State(a=0, s="service"), *states.get(place, ())),
        )
        for place, name in sorted(enumerate(names), key=lambda one: pools.index(one[1][:4]))
    )
    order = {node.name: place for place, node in enumerate(made)}
    moved = tuple(_moved(mark, order[names[mark.n]]) for mark in marks)
    said = tuple(
        model.Said(t=hour * HOUR, text=f"Something happens in hour {hour}, to many nodes at once.")
        for hour in range(5, 160, 9)
    )
    group: dict[str, Any] = {
        "budget": nodes // 20,
        "out": (model.Out(t=0, ours=0), model.Out(t=HOUR, ours=9)),
    }
    return model.Run(
        name="a-large-fleet",
        shows="Made up, to be large.",
        about=f"{nodes:,} nodes.",
        start=START.isoformat().replace("+00:00", "Z"),
        length=LENGTH,
        ok=True,
        verdict="nothing was expected",
        summary=(("nodes", f"{nodes:,}"),),
        cluster=model.Group(size=nodes, **group),
        pools=tuple(
            model.Group(name=name, kind="p5.48xlarge", size=nodes // 3, **group) for name in pools
        ),
        teams=tuple(
            model.Group(name=f"team-{at:02}", size=nodes // teams, out=() if at else group["out"])
            for at in range(teams)
        ),
        nodes=made,
        marks=moved,
        calls=tuple(calls),
        story=said,
        checks=(),
        bands=(),
        heard=tuple(chance.randrange(900) for _ in range(model.BINS)),
    )


def _moved(mark: model.Mark, place: int) -> model.Mark:
    import msgspec

    return msgspec.structs.replace(mark, n=place)


def _fault(
    chance: random.Random,
    node: int,
    at: int,
    until: int,
    marks: list[model.Mark],
    states: list[model.State],
    calls: list[model.Call],
) -> None:
    check = chance.choice(CHECKS)
    call = len(calls)
    calls.append(model.Call(f="cordon", type="made.up", id=f"{call:032x}", source="nobody"))
    path = (
        ((0, "said"), (0, "open"), (0, "cordon"), (0, "start-drain"), (60_000, "drained"))
        if chance.random() < 0.6
        else ((0, "said"), (0, "open"), (0, "hold"))
    )
    for after, kind in path:
        marks.append(
            model.Mark(
                n=node,
                t=at + after,
                k=kind,
                text=f"{check} says so",
                f="" if kind == "said" else "drain" if "drain" in kind else "cordon",
                incident="" if kind == "said" else f"kubernetes.node/{check}",
                call=None if kind == "said" else call,
            )
        )
    cordoned = len(path) > 3
    states.append(model.State(a=at, s="draining" if cordoned else "held", why=check))
    if cordoned:
        states.append(model.State(a=at + 60_000, s="drained", why=check))
    end = "uncordon" if cordoned else "close"
    marks.append(model.Mark(n=node, t=until, k=end, text=f"{check} is over", f="cordon"))
    states.append(model.State(a=until, s="service"))
