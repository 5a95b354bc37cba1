"""Free loopback ports for servers."""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack
from pathlib import Path

LOWEST_PORT = 20_000
EPHEMERAL_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_ports(count: int) -> list[int]:
    """Distinct ports that are free now. Another process may still take one: retry the boot.

    They lie below the range from which the kernel gives ports to outgoing connections. Binding
    port 0 would pick from that range, and while the API server is down for a restart one of its
    many reconnecting clients could then be given the server's own port.
    """
    ephemeral_from = int(EPHEMERAL_RANGE.read_text().split()[0])
    pool: range | list[int] = range(LOWEST_PORT, ephemeral_from)
    if len(pool) < 1_000:  # an unusual setting: any free port then
        pool = [0]
    ports: list[int] = []
    with ExitStack() as held:
        while len(ports) < count:
            listener = held.enter_context(socket.socket())
            try:
                listener.bind(("127.0.0.1", random.choice(pool)))
            except OSError:
                continue  # taken: try another one
            ports.append(listener.getsockname()[1])
    return ports
