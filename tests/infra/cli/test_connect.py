"""What an operator is told when the cluster cannot be asked: one line, the next step, exit 2."""

import argparse
import getpass
import socket
from pathlib import Path

import pytest

from infra.cli import connect, main
from tests.support.fleet import Fleet, Shell

COMMANDS = (
    ("status",),
    ("explain", "a-01"),
    ("pause", "--for", "1h", "--reason", "x"),
    ("resume",),
    ("policy", "show"),
)


def kubeconfig(folder: Path, server: str) -> Path:
    path = folder / "kubeconfig"
    path.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: dead\n"
        "contexts: [{name: dead, context: {cluster: c, user: admin}}]\n"
        f"clusters: [{{name: c, cluster: {{server: '{server}'}}}}]\n"
        "users: [{name: admin, user: {token: abc}}]\n"
    )
    return path


@pytest.fixture
def dead(tmp_path: Path) -> Path:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    return kubeconfig(tmp_path, f"http://127.0.0.1:{port}")


def one_line(capsys: pytest.CaptureFixture[str]) -> str:
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("groundcrew: ")
    assert err.count("\n") == 1
    return err


@pytest.mark.parametrize("command", COMMANDS)
def test_an_api_server_that_does_not_answer(
    dead: Path, capsys: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    assert main([*command, "--kubeconfig", str(dead)]) == 2
    said = one_line(capsys)
    assert "does not answer" in said
    assert "kubectl cluster-info" in said
    assert "object at 0x" not in said


def test_no_kubeconfig_anywhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    assert main(["status"]) == 2
    assert "--kubeconfig FILE" in one_line(capsys)


def test_a_context_that_is_not_in_the_kubeconfig(
    dead: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["status", "--kubeconfig", str(dead), "--context", "prod"]) == 2
    assert "context prod" in one_line(capsys)


@pytest.mark.parametrize(
    ("status", "message", "said"),
    [
        (403, 'User "jane" cannot list resource "configmaps"', "jane"),
        (401, "Unauthorized", "log in anew"),
        (500, "etcd is away", "refused"),
        (429, "too many requests", "refused"),
    ],
)
@pytest.mark.parametrize("command", COMMANDS)
def test_an_api_server_that_refuses(
    groundcrew: Shell,
    fleet: Fleet,
    command: tuple[str, ...],
    status: int,
    message: str,
    said: str,
) -> None:
    fleet.server.faults.fail("*", ".", status, message=message, times=99)
    code, out, err = groundcrew(*command)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert said in err


def test_an_answer_of_a_proxy_is_no_traceback(groundcrew: Shell, fleet: Fleet) -> None:
    fleet.server.faults.fail("list", "configmaps", 200, body=b"<html>log in</html>")
    code, _, err = groundcrew("status")
    assert code == 2
    assert "does not answer" in err


def test_the_namespace_of_the_environment_is_the_default(
    groundcrew: Shell, fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GROUNDCREW_NAMESPACE", "ours")
    assert "namespace ours" in groundcrew("status")[1]


def test_who_writes_is_the_user_here_as_the_user_of_the_kubeconfig(
    dead: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(getpass, "getuser", lambda: "jane")
    parser = argparse.ArgumentParser()
    connect.add_arguments(parser)
    session = connect.reach(parser.parse_args(["--kubeconfig", str(dead)]))
    assert session.operator() == "jane as admin"
    assert connect._operator("") == "jane"


def test_who_writes_is_unknown_where_the_user_has_no_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def nameless() -> str:
        raise KeyError("getpwuid(): uid not found: 12345")

    monkeypatch.setattr(getpass, "getuser", nameless)
    assert connect._operator("") == "unknown"
