"""functions-framework finds each function through main.py and serves it."""

import http.client
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from events import recording
from tests.support.edge import binary
from tests.support.processes import running

ROOT = Path(__file__).parents[1]


def _python(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=60
    )


def test_a_function_is_imported_when_it_is_asked_for_and_under_its_own_name() -> None:
    told = _python(
        "import sys, types, main\n"
        "before = 'functions.cordon' in sys.modules\n"
        "view = main.cordon\n"
        "print(before, 'functions.cordon' in sys.modules, type(view) is types.FunctionType,"
        " view is main.cordon, view.__name__)"
    )
    assert told.stdout.split() == ["False", "True", "True", "True", "cordon"], told.stderr


def test_a_function_that_is_not_there_is_refused_with_those_that_are() -> None:
    told = _python("import main\nmain.lunch")
    assert told.returncode == 1
    assert "no function 'lunch'; there are cordon" in told.stderr


@pytest.fixture(scope="module")
def served() -> Iterator[int]:
    """The port of a real ``functions-framework --target cordon`` without any cluster."""
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {
        **{k: v for k, v in os.environ.items() if not k.startswith(("KUBE", "FUNCTION_"))},
        "HOME": "/nonexistent",
        "THREADS": "4",
        "GROUNDCREW_LOG_LEVEL": "info",
    }
    program = Path(sys.executable).with_name("functions-framework")
    command = [str(program), "--target", "cordon", "--host", "127.0.0.1", "--port", str(port)]
    said = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with running(command, cwd=ROOT, env=environment, **said) as process:
        deadline = time.monotonic() + 30
        while True:
            try:
                assert _ask(port, "GET", "/healthz", {}, b"")[0] == 200
                break
            except ConnectionError:
                assert process.poll() is None, process.communicate()
                assert time.monotonic() < deadline
                time.sleep(0.05)
        yield port
        process.terminate()
        output, _ = process.communicate(timeout=30)
    # Every line is JSON, so that a log collector can read all of them.
    lines = [json.loads(line) for line in output.decode().splitlines()]
    assert {"WARNING"} <= {line["severity"] for line in lines}


def _ask(
    port: int, method: str, path: str, headers: dict[str, str], body: bytes
) -> tuple[int, dict[str, str], bytes]:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=20)) as connection:
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        headers = {name.lower(): value for name, value in response.getheaders()}
        return response.status, headers, response.read()


@pytest.mark.parametrize(
    ("case", "status"),
    [
        ("ec2_state/running", 204),
        ("cloudevents/another_charset", 415),
        ("alertmanager/version_3", 400),
    ],
)
def test_the_real_server_takes_and_refuses_recorded_events(
    served: int, case: str, status: int
) -> None:
    recorded = recording.load((ROOT / f"events/recorded/{case}.json").read_bytes())
    headers = {k: v for k, v in recorded.headers.items() if k.lower() != "content-length"}
    told, _, body = _ask(served, recorded.method, recorded.path, headers, recorded.body)
    assert told == status, body
    assert bool(body) is (status != 204)


def test_without_a_cluster_the_real_server_asks_for_the_event_again(served: int) -> None:
    status, headers, _ = _ask(served, "POST", "/", binary("dev.knative.sources.ping"), b"")
    assert (status, headers["retry-after"]) == (503, "2")


def test_the_real_server_refuses_a_large_body_whether_it_says_so_or_not(served: int) -> None:
    body = b" " * (2 << 20)
    assert _ask(served, "POST", "/", binary(), body)[0] == 413
    with closing(http.client.HTTPConnection("127.0.0.1", served, timeout=20)) as connection:
        pieces = (body[at : at + 65536] for at in range(0, len(body), 65536))
        connection.request("POST", "/", pieces, binary(), encode_chunked=True)
        assert connection.getresponse().status == 413
