"""Hardware that comes back: a machine with the GPUs, or on the host, of one that we ended.

A cloud that is given a sick machine back may hand out the same host again. GPU UUIDs are the
identity of the hardware; names, addresses and provider IDs are not. A host may carry several
machines: only one that came to it afterwards has what was given back.
"""

from collections.abc import Iterator

from functions.rules.replacing.book import Entry, Phase
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
                yield joined, known[0], f"GPU {gpu} was in {_words(*known)}"
                break
        else:
            for machine, entry in ended:
                if machine != joined.machine and is_on_host(joined, entry):
                    yield joined, machine, f"host {entry.host} was that of {_words(machine, entry)}"
                    break


def is_on_host(joined: Joined, entry: Entry) -> bool:
    """Whether it came to the host of a machine that had ended."""
    if not entry.host or joined.host != entry.host or entry.ended is None:
        return False
    return joined.created >= (entry.intent.at if entry.intent else entry.ended)


def _words(machine: str, entry: Entry) -> str:
    return f"{machine} (node {entry.node}), which was replaced for {entry.fault or 'a fault'}"
