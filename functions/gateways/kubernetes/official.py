"""The way to a real API server: the official client's configuration and connection pool.

What is taken from it is what is hard to do well: kubeconfig files with their exec plugins and
token refresh, the service account of a pod, TLS and proxies. Its generated API classes and models
are left alone: they cost seconds to load, and to decode a large list.

Nothing is retried behind the caller's back but one 401 after the credentials were read anew: an
eviction that is sent twice, or a pool that sleeps for a Retry-After, would break deadlines that
only the caller knows.
"""

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from functions.gateways.kubernetes import errors
from functions.gateways.kubernetes.client import Cluster
from functions.gateways.kubernetes.transport import Request, Response

CONNECTIONS = 64
"""Kept open at once: evictions in parallel, watches, and the event calls beside them."""
CONNECT_SECONDS = 5.0
_SOME = 1 << 16
_MALFORMED = (ValueError, TypeError, AttributeError, KeyError)
"""What the official loader raises for a kubeconfig that is YAML and no kubeconfig."""


def connect(kubeconfig: str | None = None, context: str | None = None) -> Cluster:
    """The cluster that is meant: ``kubeconfig`` (a file), else $KUBECONFIG, else the one whose
    pod we are, else ``~/.kube/config``. ``context`` chooses in a kubeconfig.

    Raises `errors.NotConfigured` when there is none, naming what was tried. No request is sent.
    """
    return Cluster(OfficialTransport(_loader(kubeconfig, context)))


@dataclass(frozen=True)
class _Session:
    """Credentials as read at one time, and the connections made with them."""

    configuration: Any
    pool: Any


class OfficialTransport:
    """Moves requests over the official client's pool. Threads may share it.

    ``load`` fills a fresh ``kubernetes.client.Configuration``; it is called once now and again
    whenever the server no longer takes the credentials.
    """

    def __init__(self, load: Callable[[Any], None]) -> None:
        self._load = load
        self._lock = threading.Lock()
        self._session = self._open()
        self._agent = f"groundcrew/{_version()}"

    def send(self, request: Request) -> Response:
        session = self._session
        response = self._exchange(session, request)
        if response.status == 401:
            response = self._exchange(self._renew(session), request)
        return response

    def stream(self, request: Request) -> tuple[Response, Iterator[bytes]]:
        session = self._session
        answer = self._begin(session, request)
        if answer.status == 401:
            self._read(answer, request)
            answer = self._begin(self._renew(session), request)
        head = Response(status=answer.status, headers=_headers(answer))
        if not 200 <= answer.status < 300:
            body = self._read(answer, request)
            return Response(status=head.status, headers=head.headers, body=body), iter(())
        return head, _Lines(answer, request)

    def close(self) -> None:
        """Close the idle connections."""
        self._session.pool.clear()

    def _exchange(self, session: _Session, request: Request) -> Response:
        started = time.monotonic()
        answer = self._begin(session, request)
        body = self._read(answer, request, started + request.timeout_seconds)
        return Response(status=answer.status, headers=_headers(answer), body=body)

    def _begin(self, session: _Session, request: Request) -> Any:
        from urllib3 import Timeout

        headers = {"Accept": "application/json", "User-Agent": self._agent}
        if request.body:
            headers["Content-Type"] = request.content_type
        url = session.configuration.host + quote(request.path)
        if request.query:
            url += "?" + urlencode(request.query)
        seconds = request.timeout_seconds
        with _unreachable(request):
            # The hook behind this reads an expired token anew, and may run an exec plugin.
            with self._lock:
                token = session.configuration.get_api_key_with_prefix("BearerToken")
            if token:
                headers["Authorization"] = token
            return session.pool.request(
                request.method,
                url,
                body=request.body or None,
                headers=headers,
                timeout=Timeout(connect=min(seconds, CONNECT_SECONDS), read=seconds),
                preload_content=False,
                retries=False,
            )

    def _read(self, answer: Any, request: Request, deadline: float | None = None) -> bytes:
        # One recv at a time: the pool's own timeout starts anew with every byte, and a server
        # that sends one a second would be listened to for ever.
        parts = []
        try:
            with _unreachable(request):
                while part := answer.read1(_SOME):
                    parts.append(part)
                    if deadline is not None and time.monotonic() > deadline:
                        raise TimeoutError(f"no full answer in {request.timeout_seconds:g} s")
        except errors.Unreachable:
            answer.close()
            raise
        answer.release_conn()
        return b"".join(parts)

    def _renew(self, refused: _Session) -> _Session:
        """Credentials read anew, by whichever thread was refused first."""
        with self._lock:
            if self._session is refused:
                try:
                    self._session = self._open()
                    refused.pool.clear()
                except errors.NotConfigured as problem:
                    raise errors.Unreachable(
                        f"401, and the credentials cannot be read anew: {problem}"
                    ) from problem
            return self._session

    def _open(self) -> _Session:
        from kubernetes.client.configuration import Configuration
        from kubernetes.client.rest import RESTClientObject

        configuration = Configuration(connection_pool_maxsize=CONNECTIONS)
        # A watch is silent for minutes: an idle balancer or a lost peer would go unnoticed.
        configuration.keep_alive = True
        self._load(configuration)
        return _Session(configuration, RESTClientObject(configuration).pool_manager)


class _Lines(Iterator[bytes]):
    """The lines of a stream as they come. ``close`` may be called from another thread, and ends
    the reading one."""

    def __init__(self, answer: Any, request: Request) -> None:
        self._answer = answer
        self._request = request
        self._closed = False
        self._reading = threading.Lock()
        self._ready: list[bytes] = []
        """Whole lines, the next one last."""
        self._rest = b""

    def __next__(self) -> bytes:
        while not self._ready:
            part = self._read()
            if not part:
                raise StopIteration
            *whole, self._rest = (self._rest + part).split(b"\n")
            self._ready = whole[::-1]
        return self._ready.pop()

    def _read(self) -> bytes:
        """What came; nothing at the end of the stream, or after `close`."""
        with self._reading:
            if self._closed:
                return b""
            try:
                with _unreachable(self._request):
                    part: bytes = self._answer.read1(_SOME)
                if not part and self._rest:
                    raise errors.Unreachable(f"{_label(self._request)}: cut within a line")
            except errors.Unreachable:
                self._answer.close()
                if self._closed:
                    return b""
                self._closed = True
                raise
            return part

    def close(self) -> None:
        self._closed = True
        # Shut down first, which ends a read in another thread; then wait for that to be over,
        # since the answer does not bear being closed under a reader.
        with contextlib.suppress(OSError, ValueError, RuntimeError):
            self._answer.shutdown()
        with self._reading:
            self._answer.close()


def _loader(kubeconfig: str | None, context: str | None) -> Callable[[Any], None]:
    import yaml
    from kubernetes.config import ConfigException, incluster_config, kube_config

    from_file: Any = kube_config.load_kube_config
    from_pod: Any = incluster_config.load_incluster_config
    in_pod = bool(os.environ.get(incluster_config.SERVICE_HOST_ENV_NAME))
    from_environment = os.environ.get("KUBECONFIG", "")
    at_home = Path("~/.kube/config").expanduser()
    files = kubeconfig or from_environment
    if not files and at_home.exists() and (context or not in_pod):
        files = str(at_home)

    def load(configuration: Any) -> None:
        if not files and not in_pod:
            raise errors.NotConfigured(
                "no cluster is configured: no kubeconfig was given, $KUBECONFIG is not set, this "
                f"is no pod of a cluster ($KUBERNETES_SERVICE_HOST is not set) and {at_home} does "
                "not exist; give a kubeconfig file"
            )
        try:
            if files:
                from_file(files, context, client_configuration=configuration)
            else:
                from_pod(client_configuration=configuration)
        except (ConfigException, OSError, yaml.YAMLError, *_MALFORMED) as problem:
            where = files or "the service account of this pod"
            chosen = f", context {context}" if context else ""
            raise errors.NotConfigured(f"{where}{chosen}: {problem}") from problem

    return load


@contextlib.contextmanager
def _unreachable(request: Request) -> Iterator[None]:
    """Whatever kept an answer from coming, as the one error that says so."""
    from http.client import HTTPException

    from kubernetes.config import ConfigException
    from urllib3.exceptions import HTTPError

    try:
        yield
    except (HTTPError, HTTPException, OSError, ConfigException) as problem:
        raise errors.Unreachable(f"{_label(request)}: {problem}") from problem


def _label(request: Request) -> str:
    return f"{request.method} {request.path}"


def _headers(answer: Any) -> Mapping[str, str]:
    return {name.lower(): value for name, value in answer.headers.items()}


def _version() -> str:
    try:
        return metadata.version("k8s-groundcrew")
    except metadata.PackageNotFoundError:
        return "0"
