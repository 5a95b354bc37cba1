"""The configurations that are plain: a kubeconfig with a token or certificates, and a pod's own.

Read here, since the official client takes a fifth of a second and 15 MB to load, which each
command and each function that wakes up would wait for. Whatever is not plain (exec plugins, auth
providers, passwords, token files, proxies, several files) or not in order is answered with None:
the official loader then reads it, or says what is wrong with it.
"""

import base64
import binascii
import os
import ssl
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from functions.gateways.kubernetes import connection
from functions.gateways.kubernetes.connection import Connection

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
TOKEN_SECONDS = 60.0
"""How long a pod's token is believed: the kubelet puts a new one into its place long before the
old one ends."""


class _Cluster(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An entry's fields, and no others: what is not known here may matter."""

    server: str
    authority: str | None = msgspec.field(default=None, name="certificate-authority")
    authority_data: str | None = msgspec.field(default=None, name="certificate-authority-data")
    insecure: bool = msgspec.field(default=False, name="insecure-skip-tls-verify")
    server_name: str = msgspec.field(default="", name="tls-server-name")
    extensions: Any = None


class _User(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    token: str = ""
    certificate: str | None = msgspec.field(default=None, name="client-certificate")
    certificate_data: str | None = msgspec.field(default=None, name="client-certificate-data")
    key: str | None = msgspec.field(default=None, name="client-key")
    key_data: str | None = msgspec.field(default=None, name="client-key-data")
    extensions: Any = None


class _Context(msgspec.Struct, frozen=True, kw_only=True):
    cluster: str
    user: str


class _NamedCluster(msgspec.Struct, frozen=True):
    name: str
    cluster: Any


class _NamedUser(msgspec.Struct, frozen=True):
    name: str
    user: Any


class _NamedContext(msgspec.Struct, frozen=True):
    name: str
    context: Any


class _Kubeconfig(msgspec.Struct, frozen=True, kw_only=True):
    contexts: list[_NamedContext]
    clusters: list[_NamedCluster]
    users: list[_NamedUser]
    current: str = msgspec.field(default="", name="current-context")


Named = TypeVar("Named", _NamedCluster, _NamedUser, _NamedContext)


class _NotPlain(Exception):
    """Left to the official loader."""


def of_kubeconfig(files: str, context: str | None) -> Connection | None:
    """``files`` as $KUBECONFIG has them. None: not plain."""
    import yaml

    if proxies() or os.pathsep in files:
        return None
    path = Path(files).expanduser()
    try:
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        read = msgspec.convert(yaml.load(path.read_bytes(), loader), _Kubeconfig)
        chosen = msgspec.convert(_named(read.contexts, context or read.current).context, _Context)
        cluster = msgspec.convert(_named(read.clusters, chosen.cluster).cluster, _Cluster)
        user = msgspec.convert(_named(read.users, chosen.user).user, _User)
        options = _tls(path.parent, cluster, user)
    except (_NotPlain, yaml.YAMLError, msgspec.ValidationError, OSError, ValueError):
        return None
    header = f"Bearer {user.token}" if user.token else ""
    return connection.to(cluster.server.rstrip("/"), lambda: header, lambda: chosen.user, **options)


def of_pod(host: str, port: str, folder: Path = SERVICE_ACCOUNT) -> Connection | None:
    """As the pod's service account, at the address that the kubelet wrote into its environment.
    None: not plain."""
    token, authority = PodToken(folder / "token"), folder / "ca.crt"
    try:
        if proxies() or not (host and port and token() and authority.read_bytes()):
            return None
    except OSError:
        return None
    name = f"[{host}]" if ":" in host else host
    # By its path: it is read for each new connection, so that a new authority is believed.
    return connection.to(
        f"https://{name}:{port}", token, cert_reqs="CERT_REQUIRED", ca_certs=str(authority)
    )


class PodToken:
    """The header with a pod's token as it stands in its file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._header = ""
        self._read_at = 0.0

    def __call__(self) -> str:
        now = time.monotonic()
        if not self._header or now - self._read_at >= TOKEN_SECONDS:
            text = self._path.read_text().strip()
            self._header = f"Bearer {text}" if text else ""
            self._read_at = now
        return self._header


def _named(entries: Sequence[Named], name: str) -> Named:
    for entry in entries:
        if entry.name == name:
            return entry
    raise _NotPlain


def _tls(folder: Path, cluster: _Cluster, user: _User) -> dict[str, Any]:
    """Options of the pool. Raises `OSError` and `ValueError` for what is not in order."""
    from urllib3.util.ssl_ import create_urllib3_context

    if cluster.server.startswith("http://"):
        return {}
    if not cluster.server.startswith("https://"):
        raise _NotPlain
    context = create_urllib3_context(
        cert_reqs=ssl.CERT_NONE if cluster.insecure else ssl.CERT_REQUIRED
    )
    if authority := _content(folder, cluster.authority, cluster.authority_data):
        context.load_verify_locations(cadata=authority.decode())
    else:
        context.load_default_certs()
    certificate = _content(folder, user.certificate, user.certificate_data)
    key = _content(folder, user.key, user.key_data)
    if certificate:
        _prove(context, certificate, key)
    options: dict[str, Any] = {"ssl_context": context}
    if cluster.server_name:
        options["server_hostname"] = cluster.server_name
    return options


def _content(folder: Path, file: str | None, data: str | None) -> bytes:
    """What stands in ``data`` or, without that, in ``file``; nothing where neither is given."""
    if data is None:
        return (folder / file).read_bytes() if file is not None else b""
    try:
        found = base64.b64decode(data, validate=True)
    except binascii.Error:
        raise _NotPlain from None
    if not found:
        raise _NotPlain
    return found


def _prove(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Have ``context`` show that it is we. OpenSSL takes files only: they are gone at once."""
    import tempfile

    def encrypted() -> str:
        raise _NotPlain  # OpenSSL would ask the terminal for the passphrase

    with tempfile.TemporaryDirectory() as folder:
        for name, text in (("certificate", certificate), ("key", key)):
            (Path(folder) / name).write_bytes(text)
        key_file = f"{folder}/key" if key else None
        context.load_cert_chain(f"{folder}/certificate", key_file, encrypted)


def proxies() -> bool:
    """Whether requests may have to go through one: the official client knows which do."""
    from urllib.request import getproxies

    return bool(getproxies())
