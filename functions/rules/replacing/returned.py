"""Hardware that comes back: a machine with the GPUs, or on the host, of one that we ended.

A cloud that is given a sick machine back may hand out the same host again. GPU UUIDs are the
identity of the hardware; names, addresses and provider IDs are not.
"""

from collections.abc import Iterator

from functions.rules.replacing.book import Phase
from functions.rules.replacing.facts import Facts, Joined

RETURNED = "dev.groundcrew.hardware.returned"


def find(facts: Facts) -> Iterator[tuple[Joined, str, str]]:
    """Nodes with hardware of a machine that ended for us, with that machine and a sentence. Those
    that carry our mark already are known."""
    ended = [
        (machine, entry)
        for book in facts.books.values()
        for machine, entry in book.machines.items()
        if entry.ended is not None
    ]
    by_gpu = {
        gpu: (machine, entry)
        for machine, entry in ended
        if entry.phase in (Phase.ENDED, Phase.CLOSED)
        for gpu in entry.gpus
    }
    for joined in facts.joined or ():
        if joined.marked:
            continue
        for gpu in joined.gpus:
            known = by_gpu.get(gpu)
            if known is not None and known[0] != joined.machine:
                machine, entry = known
                yield (
                    joined,
                    machine,
                    (
                        f"GPU {gpu} was in {machine} (node {entry.node}), which was replaced for "
                        f"{entry.fault or 'a fault'}"
                    ),
                )
                break
