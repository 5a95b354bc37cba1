"""A scripted server, and a plain kubeconfig for it."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.scripted import Server, write_kubeconfig


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield running
        running.shutdown()
        thread.join()


@pytest.fixture
def kubeconfig(server: Server, tmp_path: Path) -> Path:
    path = tmp_path / "kubeconfig"
    write_kubeconfig(path, server.url, "token: first")
    return path
