"""An HTTP server on a loopback port that answers as a test says, and kubeconfigs for it."""

import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

Script = Callable[[BaseHTTPRequestHandler], object]


class Server(ThreadingHTTPServer):
    """Answers requests with the scripts in turn, the last one for all that follow."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.scripts: list[Script] = []
        self.seen: list[tuple[str, str, dict[str, str], bytes]] = []
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients that go away are a part of these tests."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        with self.server.lock:
            headers = {k.lower(): v for k, v in self.headers.items()}
            self.server.seen.append((self.command, self.path, headers, body))
            scripts = self.server.scripts
            script = scripts.pop(0) if len(scripts) > 1 else scripts[0]
        script(self)

    do_GET = do_POST = do_PATCH = do_DELETE = do_PUT = _serve  # noqa: N815

    def log_message(self, *_: object) -> None: ...


def says(status: int, body: bytes = b"{}", **headers: str) -> Script:
    def script(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return script


def chunks(*parts: bytes, end: bool = True, hold: threading.Event | None = None) -> Script:
    def script(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        for part in parts:
            handler.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
        handler.wfile.flush()
        if hold:
            hold.wait(5)
        if end:
            handler.wfile.write(b"0\r\n\r\n")
        else:
            handler.close_connection = True
            handler.connection.shutdown(socket.SHUT_RDWR)

    return script


def write_kubeconfig(path: Path, url: str, user: str) -> None:
    path.write_text(
        f"""
apiVersion: v1
kind: Config
current-context: here
contexts:
- {{name: here, context: {{cluster: c, user: u}}}}
- {{name: broken, context: {{cluster: nowhere, user: u}}}}
clusters:
- {{name: c, cluster: {{server: "{url}"}}}}
users:
- name: u
  user:
    {user}
"""
    )
