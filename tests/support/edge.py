"""A function behind the real functions-framework, without a socket."""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import flask.testing
import functions_framework
import pytest

from functions.gateways.kubernetes.errors import Unreachable
from functions.gateways.kubernetes.transport import Request, Response

OFFERED: dict[str, Any] = {}


def offered(name: str) -> Any:
    try:
        return OFFERED[name]
    except KeyError:
        raise AttributeError(name) from None


def client_of(
    view: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> flask.testing.FlaskClient:
    """A test client of the app that functions-framework makes of ``view``."""
    source = tmp_path / "main.py"
    source.write_text("from tests.support.edge import offered as __getattr__\n")
    for name in ("FUNCTION_TARGET", "FUNCTION_SIGNATURE_TYPE"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setitem(sys.modules, "main", sys)
    monkeypatch.setitem(OFFERED, view.__name__, view)
    return functions_framework.create_app(view.__name__, str(source)).test_client()  # type: ignore[no-untyped-call]


def binary(type_: str = "t.a", **attributes: str) -> dict[str, str]:
    """Headers of a CloudEvent in binary mode; an attribute given as an empty text is empty."""
    named = {"specversion": "1.0", "id": "1", "source": "/test", "type": type_} | attributes
    return {f"ce-{name}": value for name, value in named.items()} | {
        "content-type": "application/json"
    }


class Silent:
    """A transport to an API server that nobody reaches; it remembers what was asked."""

    def __init__(self) -> None:
        self.asked: list[Request] = []

    def send(self, request: Request) -> Response:
        self.asked.append(request)
        raise Unreachable(f"{request.method} {request.path}: connection refused")

    def stream(self, request: Request) -> tuple[Response, Iterator[bytes]]:
        self.send(request)
        raise AssertionError


class Refusing(Silent):
    """A transport to an API server that answers everything with one status."""

    def __init__(self, status: int, headers: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self._response = Response(status=status, headers=headers or {}, body=b"{}")

    def send(self, request: Request) -> Response:
        self.asked.append(request)
        return self._response
