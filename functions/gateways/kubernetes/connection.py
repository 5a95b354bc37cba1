"""Where an API server is, as whom it is asked, and the connections to it."""

import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

CONNECTIONS = 64
"""Kept open at once: evictions in parallel, watches, and the event calls beside them."""
_IDLE_SECONDS, _BETWEEN_SECONDS, _PROBES = 30, 15, 9
"""As client-go asks of the kernel."""


@dataclass(frozen=True)
class Connection:
    """A configuration as read at one time, and what was made with it."""

    host: str
    """With its scheme, and without a slash at the end."""
    pool: Any
    """A ``urllib3.PoolManager``."""
    authorization: Callable[[], str]
    """The Authorization header as it is to be now; empty for none. One caller at a time."""
    user: Callable[[], str]
    """What the kubeconfig calls the user; empty where there is none."""


def to(
    host: str,
    authorization: Callable[[], str] = str,
    user: Callable[[], str] = str,
    **options: Any,
) -> Connection:
    """A connection to ``host``, with ``options`` of a ``urllib3.PoolManager``."""
    import urllib3

    pool = urllib3.PoolManager(maxsize=CONNECTIONS, socket_options=_socket_options(), **options)
    return Connection(host, pool, authorization, user)


def _socket_options() -> list[tuple[int, int, int | bytes]]:
    """A watch is silent for minutes: an idle balancer or a lost peer would go unnoticed."""
    from urllib3.connection import HTTPConnection

    made = [*HTTPConnection.default_socket_options, (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
    for name, value in (
        ("TCP_KEEPIDLE" if hasattr(socket, "TCP_KEEPIDLE") else "TCP_KEEPALIVE", _IDLE_SECONDS),
        ("TCP_KEEPINTVL", _BETWEEN_SECONDS),
        ("TCP_KEEPCNT", _PROBES),
    ):
        if option := getattr(socket, name, None):
            made.append((socket.IPPROTO_TCP, option, value))
    return made
