"""Which cluster is meant."""

import subprocess
import sys
from pathlib import Path

import pytest

from functions.gateways.kubernetes import errors
from functions.gateways.kubernetes.connect import connect, transport
from functions.gateways.kubernetes.transport import Request
from tests.support.scripted import Server, says, write_kubeconfig


def test_a_missing_configuration_is_named_with_everything_that_was_tried(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(errors.NotConfigured, match=r"KUBECONFIG.*SERVICE_HOST.*\.kube/config"):
        connect()


@pytest.mark.parametrize("text", ["", "[1, 2]", "a: [", "kind: Config", "just words"])
def test_a_kubeconfig_that_is_none_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(text)
    with pytest.raises(errors.NotConfigured, match=str(path)):
        connect(str(path))


def test_a_context_that_is_not_there_is_named(kubeconfig: Path) -> None:
    with pytest.raises(errors.NotConfigured, match="context other"):
        connect(str(kubeconfig), "other")


def test_a_file_comes_before_the_pod_and_the_pod_before_the_home(
    server: Server, kubeconfig: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    home = tmp_path / ".kube" / "config"
    home.parent.mkdir()
    write_kubeconfig(home, server.url, "token: home")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    server.scripts = [says(200)]

    def asks(file: str | None = None, context: str | None = None) -> str:
        found = transport(file, context)
        found.send(Request(method="GET", path="/version"))
        found.close()
        return server.seen[-1][2]["authorization"]

    assert asks() == "Bearer home"
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    with pytest.raises(errors.NotConfigured, match="service account of this pod"):
        asks()
    assert asks(context="here") == "Bearer home"
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    assert asks() == "Bearer first"
    assert asks(str(home)) == "Bearer home"


def test_a_plain_configuration_is_read_without_the_official_client(kubeconfig: Path) -> None:
    """It takes a fifth of a second to load, for each command and each function that wakes up."""
    check = (
        "import sys; from functions.gateways.kubernetes.connect import connect; "
        f"connect({str(kubeconfig)!r}); "
        "loaded = {'kubernetes', 'requests', 'oauthlib', 'pydantic'} & set(sys.modules); "
        "assert not loaded, loaded"
    )
    subprocess.run([sys.executable, "-c", check], check=True)
