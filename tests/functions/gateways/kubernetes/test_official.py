"""Configurations that are left to the official client, against a scripted HTTP server."""

import subprocess
import sys
from pathlib import Path

import pytest

from functions.gateways.kubernetes import errors, official
from functions.gateways.kubernetes.connect import transport
from functions.gateways.kubernetes.rest import RestTransport
from functions.gateways.kubernetes.transport import Request
from tests.support.scripted import Server, says, write_kubeconfig

GET = Request(method="GET", path="/api/v1/nodes/n1")


def with_plugin(folder: Path, server: Server) -> Path:
    """A kubeconfig whose plugin counts how often it is run."""
    plugin = folder / "plugin"
    plugin.write_text(
        f"""#!/bin/sh
echo run >> {folder}/runs
echo '{{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential",
"status":{{"token":"from-plugin-'$(wc -l < {folder}/runs | tr -d ' ')'"}}}}'
"""
    )
    plugin.chmod(0o755)
    user = (
        "exec: {apiVersion: client.authentication.k8s.io/v1, "
        f"interactiveMode: Never, command: {plugin}}}"
    )
    path = folder / "with-plugin"
    write_kubeconfig(path, server.url, user)
    return path


def test_an_exec_plugin_gives_the_token_and_is_run_again_when_it_is_refused(
    server: Server, tmp_path: Path
) -> None:
    server.scripts = [says(200), says(401), says(200)]
    made = transport(str(with_plugin(tmp_path, server)))
    assert [made.send(GET).status for _ in range(2)] == [200, 200]
    made.close()
    assert [seen[2]["authorization"] for seen in server.seen] == [
        "Bearer from-plugin-1", "Bearer from-plugin-1", "Bearer from-plugin-2",
    ]  # fmt: skip
    assert made.user == "u"


def test_files_are_merged(server: Server, tmp_path: Path) -> None:
    users, clusters = tmp_path / "users", tmp_path / "clusters"
    users.write_text("users: [{name: u, user: {token: t}}]")
    clusters.write_text(
        f"""
current-context: here
contexts: [{{name: here, context: {{cluster: c, user: u}}}}]
clusters: [{{name: c, cluster: {{server: "{server.url}"}}}}]
"""
    )
    server.scripts = [says(200)]
    made = transport(f"{users}:{clusters}")
    made.send(GET)
    made.close()
    assert server.seen[0][2]["authorization"] == "Bearer t"


def test_a_proxy_of_the_environment_is_asked(
    server: Server, kubeconfig: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_kubeconfig(kubeconfig, "http://api.invalid", "token: t")
    monkeypatch.setenv("http_proxy", server.url)
    server.scripts = [says(200)]
    made = transport(str(kubeconfig))
    assert made.send(GET).status == 200
    made.close()
    assert server.seen[0][1] == "http://api.invalid/api/v1/nodes/n1"


def test_no_proxy_is_honoured(
    server: Server, kubeconfig: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    server.scripts = [says(200)]
    made = transport(str(kubeconfig))
    assert made.send(GET).status == 200
    made.close()


def test_a_token_that_cannot_be_had_is_no_answer(server: Server) -> None:
    from kubernetes.config import ConfigException

    def load(configuration: object) -> None:
        def refresh(_: object) -> None:
            raise ConfigException("the file is empty")

        configuration.host = server.url  # type: ignore[attr-defined]
        configuration.refresh_api_key_hook = refresh  # type: ignore[attr-defined]

    made = RestTransport(lambda: official.loaded(load))
    with pytest.raises(errors.Unreachable, match="the file is empty"):
        made.send(GET)


def test_loading_it_does_not_load_the_generated_api() -> None:
    check = (
        "import sys; import functions.gateways.kubernetes.official as o; "
        "assert 'kubernetes' not in sys.modules; "
        "o.loaded(lambda c: None); "
        "loaded = [m for m in sys.modules if m.startswith('kubernetes.client.models.v1_pod')]; "
        "assert not loaded, loaded"
    )
    subprocess.run([sys.executable, "-c", check], check=True)
