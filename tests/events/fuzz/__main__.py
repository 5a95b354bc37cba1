"""``python -m tests.events.fuzz --seconds 600``: damage recorded events until something breaks.

A finding is written as a recorded event into ``--keep``, to be moved beside the others with what it
means once it is mended. Ends with 1 when there was one.
"""

import argparse
import base64
import json
import random
import sys
import time
import traceback
from collections import Counter
from pathlib import Path

from events.errors import EventError
from events.recording import Recording
from tests.events.fuzz import judge, mutate
from tests.events.fuzz.corpus import corpus


def main() -> int:
    parser = argparse.ArgumentParser(description="Damage recorded events until something breaks.")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=None, help="repeat a run; default: another one")
    parser.add_argument("--source", default="", help="only recordings of this folder")
    parser.add_argument("--keep", type=Path, default=Path("fuzz-findings"))
    args = parser.parse_args()
    seed = args.seed if args.seed is not None else random.SystemRandom().randrange(2**32)
    chosen = {name: found for name, found in corpus().items() if args.source in ("", name)}
    if not chosen:
        parser.error(f"--source: no recordings of {args.source!r}")
    print(f"seed {seed}, {sum(map(len, chosen.values()))} recordings of {len(chosen)} folders")
    return _run(chosen, random.Random(seed), args.seconds, args.keep)


def _run(
    chosen: dict[str, list[Recording]], choose: random.Random, seconds: float, keep: Path
) -> int:
    everything = [recorded for found in chosen.values() for recorded in found]
    came_of: Counter[str] = Counter()
    until = time.monotonic() + seconds
    slowest, known = 0.0, set[str]()
    while time.monotonic() < until:
        name = choose.choice(sorted(chosen))
        damaged = mutate.damaged(choose.choice(chosen[name]), choose, everything)
        began = time.process_time()
        try:
            result = judge.understood(damaged)
        except Exception as problem:  # noqa: BLE001 - whatever it is, it is what we look for
            came_of["FOUND"] += 1
            where = traceback.extract_tb(problem.__traceback__)[-1]
            what = f"{type(problem).__name__}: {str(problem)[:200]}"
            if f"{type(problem).__name__} {where.filename}:{where.lineno}" not in known:
                known.add(f"{type(problem).__name__} {where.filename}:{where.lineno}")
                print(f"{write(damaged, keep, name, what)}: {what} ({where.name})")
            continue
        slowest = max(slowest, time.process_time() - began)
        if isinstance(result, EventError):
            came_of["refused"] += 1
        else:
            came_of["notices" if result.notices else "declined"] += 1
    told = ", ".join(f"{count} {what}" for what, count in sorted(came_of.items()))
    took = f"the slowest took {slowest * 1000:.0f} ms of processor time"
    print(f"{came_of.total()} requests: {told}; {took}")
    return 1 if came_of["FOUND"] else 0


def write(damaged: Recording, keep: Path, name: str, what: str) -> Path:
    keep.mkdir(parents=True, exist_ok=True)
    file = keep / f"{name}_{abs(hash((damaged.body, damaged.path))) % 10**8:08}.json"
    whole = {
        "description": what,
        "method": damaged.method,
        "path": damaged.path,
        "headers": damaged.headers,
        "body_base64": base64.b64encode(damaged.body).decode(),
    }
    file.write_text(json.dumps(whole, indent=2) + "\n")
    return file


if __name__ == "__main__":
    sys.exit(main())
