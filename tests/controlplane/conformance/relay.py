"""A way to an API server that a test can cut: every byte is passed on, until it is."""

import contextlib
import socket
import struct
import threading

_AT_ONCE = struct.pack("ii", 1, 0)
"""SO_LINGER: whoever is at the other end sees a reset, as from a balancer that forgot him."""


class Relay:
    """``with Relay(port) as way: ... way.cut()``; listens on ``way.port`` of this machine."""

    def __init__(self, to_port: int) -> None:
        self._to = to_port
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        self._lock = threading.Lock()
        self._open: list[socket.socket] = []
        self.mute = False
        """What the server answers is not passed on: what was asked is carried out, unheard."""

    def cut(self) -> int:
        """Reset every connection that there is; new ones are passed on as before. How many."""
        with self._lock:
            ends, self._open = self._open, []
        for end in ends:
            with contextlib.suppress(OSError):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
                end.shutdown(socket.SHUT_RD)  # wakes the thread that reads it
            end.close()
        return len(ends) // 2

    def __enter__(self) -> "Relay":
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.close()
        self.cut()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                near, _ = self._server.accept()
                far = socket.create_connection(("127.0.0.1", self._to))
                with self._lock:
                    self._open += (near, far)
                for ends in ((near, far, False), (far, near, True)):
                    threading.Thread(target=self._pass, args=ends, daemon=True).start()

    def _pass(self, one: socket.socket, other: socket.socket, answers: bool) -> None:
        with contextlib.suppress(OSError):
            while part := one.recv(1 << 16):
                if not (answers and self.mute):
                    other.sendall(part)
            other.shutdown(socket.SHUT_WR)
