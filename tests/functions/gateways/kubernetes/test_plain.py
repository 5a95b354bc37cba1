"""Configurations that are read without the official client, which is the judge of them here."""

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from functions.gateways.kubernetes import errors, official, plain
from functions.gateways.kubernetes.connection import Connection
from functions.gateways.kubernetes.plain import PodToken
from functions.gateways.kubernetes.rest import RestTransport
from functions.gateways.kubernetes.transport import Request
from tests.support.certificates import Signed, secured
from tests.support.scripted import Server, says

GET = Request(method="GET", path="/version")


THE_SERVER, SOMEBODY, LOCKED = Signed("api.test"), Signed("jane"), Signed("jane", b"secret")


@pytest.fixture
def secure(tmp_path: Path) -> Iterator[Server]:
    """Asks who comes, and says it."""

    def who(handler: Any) -> None:
        told = handler.connection.getpeercert() or {}
        name = dict(pair for part in told.get("subject", ()) for pair in part).get("commonName", "")
        says(200, name.encode())(handler)

    with secured(tmp_path, THE_SERVER, SOMEBODY) as running:
        running.scripts = [who]
        yield running


def encoded(text: bytes) -> str:
    return base64.b64encode(text).decode()


def write(folder: Path, cluster: Any, user: Any, **more: Any) -> str:
    path = folder / "kubeconfig"
    made = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
    } | more
    path.write_text(yaml.safe_dump(made))
    return str(path)


def ask(made: Connection) -> bytes:
    transport = RestTransport(lambda: made)
    try:
        return transport.send(GET).body
    finally:
        transport.close()


PLAIN: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a token": ({"server": "http://api"}, {"token": "t"}),
    "a slash at the end": ({"server": "https://api:6443/"}, {"token": "t"}),
    "a path": ({"server": "https://api/clusters/c-1"}, {"token": "t"}),
    "nobody": ({"server": "http://api"}, {}),
    "a name of its own": ({"server": "https://api", "tls-server-name": "other"}, {"token": "t"}),
    "unchecked": ({"server": "https://api", "insecure-skip-tls-verify": True}, {"token": "t"}),
    "what minikube notes": ({"server": "http://api", "extensions": [{"name": "x"}]}, {}),
}


@pytest.mark.parametrize("name", PLAIN)
def test_what_is_plain_is_read_as_the_official_client_reads_it(tmp_path: Path, name: str) -> None:
    file = write(tmp_path, *PLAIN[name])
    ours, theirs = plain.of_kubeconfig(file, None), official.of_kubeconfig(file, None)
    assert ours is not None
    assert (ours.host, ours.authorization(), ours.user()) == (
        theirs.host, theirs.authorization(), theirs.user(),
    )  # fmt: skip
    mine, other = ours.pool.connection_pool_kw, theirs.pool.connection_pool_kw
    for option in ("server_hostname", "socket_options", "maxsize"):
        assert mine.get(option) == other.get(option)
    if ours.host.startswith("https:"):
        assert mine["ssl_context"].verify_mode is other["cert_reqs"]


NOT_PLAIN: dict[str, tuple[Any, Any]] = {
    "a plugin": ({"server": "http://api"}, {"exec": {"command": "x"}}),
    "an auth provider": ({"server": "http://api"}, {"auth-provider": {"name": "oidc"}}),
    "a password": ({"server": "http://api"}, {"username": "u", "password": "p"}),
    "a token file": ({"server": "http://api"}, {"tokenFile": "t"}),
    "somebody else's name": ({"server": "http://api"}, {"token": "t", "as": "admin"}),
    "a proxy": ({"server": "http://api", "proxy-url": "http://p"}, {"token": "t"}),
    "no scheme": ({"server": "api"}, {"token": "t"}),
    "no server": ({}, {"token": "t"}),
    "no words": ({"server": 1}, {"token": "t"}),
    "a token that is a number": ({"server": "http://api"}, {"token": 1}),
    "no user": ({"server": "http://api"}, None),
    "an authority that is none": (
        {"server": "https://api", "certificate-authority-data": encoded(b"x")}, {},
    ),
    "an authority that is empty": (
        {"server": "https://api", "certificate-authority-data": ""}, {},
    ),
    "an authority that is not there": (
        {"server": "https://api", "certificate-authority": "none"}, {},
    ),
    "base64 that is none": (
        {"server": "https://api", "certificate-authority-data": "{}"}, {},
    ),
    "a key that asks for its passphrase": (
        {"server": "https://api"},
        {
            "client-certificate-data": encoded(LOCKED.certificate),
            "client-key-data": encoded(LOCKED.key),
        },
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NOT_PLAIN)
def test_what_is_not_plain_is_left_to_the_official_client(tmp_path: Path, name: str) -> None:
    assert plain.of_kubeconfig(write(tmp_path, *NOT_PLAIN[name]), None) is None


@pytest.mark.parametrize("wrong", [{"current-context": "x"}, {"clusters": []}, {"users": []}])
def test_what_names_nothing_that_is_there_is_left_to_it(tmp_path: Path, wrong: Any) -> None:
    file = write(tmp_path, {"server": "http://api"}, {"token": "t"}, **wrong)
    assert plain.of_kubeconfig(file, None) is None


def test_several_files_and_proxies_of_the_environment_are_left_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(tmp_path, {"server": "http://api"}, {"token": "t"})
    assert plain.of_kubeconfig(file, None)
    other = Path(file).rename(tmp_path / "one:other")
    assert plain.of_kubeconfig(str(other), None) is None
    file = str(other.rename(file))
    monkeypatch.setenv("HTTPS_PROXY", "http://p")
    assert plain.of_kubeconfig(file, None) is None


@pytest.mark.parametrize("inline", [True, False])
def test_certificates_say_who_we_are_and_who_answers(
    secure: Server, tmp_path: Path, inline: bool
) -> None:
    certificate, key = SOMEBODY.certificate, SOMEBODY.key
    where = {"server": f"https://127.0.0.1:{secure.server_port}", "tls-server-name": "api.test"}
    if inline:
        where["certificate-authority-data"] = encoded(THE_SERVER.certificate)
        user = {"client-certificate-data": encoded(certificate), "client-key-data": encoded(key)}
    else:
        where["certificate-authority"] = "server.crt"
        user = {"client-certificate": "client.crt", "client-key": "client.key"}
    made = plain.of_kubeconfig(write(tmp_path, where, user), None)
    assert made is not None
    assert ask(made) == b"jane"


def test_a_key_leaves_no_file_behind(
    secure: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = tmp_path / "files"
    files.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(files))
    user = {
        "client-certificate-data": encoded(SOMEBODY.certificate),
        "client-key-data": encoded(SOMEBODY.key),
    }
    assert plain.of_kubeconfig(write(tmp_path, {"server": "https://api"}, user), None)
    assert list(files.iterdir()) == []


@pytest.mark.parametrize(
    "trust", [{}, {"certificate-authority": "client.crt"}, {"tls-server-name": "elsewhere"}]
)
def test_a_server_that_cannot_prove_itself_is_not_spoken_to(
    secure: Server, tmp_path: Path, trust: dict[str, str]
) -> None:
    where = {"server": f"https://127.0.0.1:{secure.server_port}", "tls-server-name": "api.test"}
    if "tls-server-name" in trust:
        where["certificate-authority"] = "server.crt"
    made = plain.of_kubeconfig(write(tmp_path, where | trust, {"token": "secret"}), None)
    assert made is not None
    with pytest.raises(errors.Unreachable, match=r"certificate|Hostname"):
        ask(made)
    assert secure.seen == []


@pytest.mark.filterwarnings("ignore::urllib3.exceptions.InsecureRequestWarning")
def test_one_that_need_not_prove_itself_is(secure: Server, tmp_path: Path) -> None:
    server = f"https://127.0.0.1:{secure.server_port}"
    file = write(tmp_path, {"server": server, "insecure-skip-tls-verify": True}, {"token": "t"})
    made = plain.of_kubeconfig(file, None)
    assert made is not None
    assert ask(made) == b""


@pytest.fixture
def account(tmp_path: Path) -> Path:
    (tmp_path / "token").write_text("first\n")
    (tmp_path / "ca.crt").write_bytes(THE_SERVER.certificate)
    return tmp_path


@pytest.mark.parametrize(
    ("host", "url"), [("10.0.0.1", "https://10.0.0.1:443"), ("fd00::1", "https://[fd00::1]:443")]
)
def test_a_pod_asks_as_its_service_account(account: Path, host: str, url: str) -> None:
    made = plain.of_pod(host, "443", account)
    assert made is not None
    assert (made.host, made.authorization()) == (url, "Bearer first")


def test_a_pod_believes_its_own_authority_only(secure: Server, account: Path) -> None:
    port = str(secure.server_port)
    made = plain.of_pod("127.0.0.1", port, account)
    assert made is not None
    with pytest.raises(errors.Unreachable, match="IP address mismatch"):
        ask(made)
    (account / "ca.crt").write_bytes(SOMEBODY.certificate)
    with pytest.raises(errors.Unreachable, match="self-signed certificate"):
        ask(made)


@pytest.mark.parametrize("missing", ["token", "ca.crt"])
@pytest.mark.parametrize("gone", [True, False])
def test_a_pod_without_its_service_account_is_left_to_the_official_client(
    account: Path, missing: str, gone: bool
) -> None:
    file = account / missing
    file.unlink() if gone else file.write_text("")
    assert plain.of_pod("10.0.0.1", "443", account) is None


def test_a_pod_behind_a_proxy_is_left_to_the_official_client(
    account: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://p")
    assert plain.of_pod("10.0.0.1", "443", account) is None


def test_a_pods_token_is_read_again_after_a_minute(
    account: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    token = PodToken(account / "token")
    assert token() == "Bearer first"
    (account / "token").write_text("second")
    now += 59
    assert token() == "Bearer first"
    now += 1
    assert token() == "Bearer second"
