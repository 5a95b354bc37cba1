"""Retries inside a deadline, each only after what may be tried again; and what a refusal means."""

import http.server
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.exceptions import (
    ClientError,
    ConnectTimeoutError,
    EndpointConnectionError,
    NoCredentialsError,
    ReadTimeoutError,
)
from botocore.parsers import ResponseParserError

from functions.gateways.aws import errors
from functions.gateways.aws.calls import Clients
from functions.gateways.aws.client import Aws
from functions.gateways.aws.types import Machine

MACHINE = Machine("i-0123456789abcdef0", "us-east-1")
ENDED = {
    "TerminatingInstances": [
        {"PreviousState": {"Name": "running"}, "CurrentState": {"Name": "shutting-down"}}
    ]
}


class Clock:
    """Time that passes when somebody waits, and a second with each look at it."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.waits: list[float] = []

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.seconds += seconds


class Cloud(Clients):
    """Answers in turn; an exception is raised. After the last one, it goes on with that."""

    def __init__(self, *answers: Any) -> None:
        super().__init__()
        self.answers = list(answers)
        self.calls = 0
        self.renewed = 0

    def get(self, service: str, region: str) -> Any:
        return self

    def renew(self) -> None:
        self.renewed += 1

    def __getattr__(self, operation: str) -> Callable[..., Any]:
        def call(**_: Any) -> Any:
            self.calls += 1
            answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
            if isinstance(answer, Exception):
                raise answer
            return answer

        return call


def refusal(code: str, message: str = "", status: int = 400) -> ClientError:
    said: Any = {
        "Error": {"Code": code, "Message": message},
        "ResponseMetadata": {"HTTPStatusCode": status},
    }
    return ClientError(said, "Anything")


THROTTLED = refusal("RequestLimitExceeded")


def test_what_is_throttled_is_tried_again_until_it_is_done() -> None:
    cloud, clock = Cloud(THROTTLED, THROTTLED, ENDED), Clock()
    assert Aws(cloud, clock=clock).terminate(MACHINE) == "shutting-down"
    assert cloud.calls == 3
    assert len(clock.waits) == 2


def test_waits_are_jittered_grow_and_end_with_the_deadline() -> None:
    cloud, clock = Cloud(THROTTLED), Clock()
    with pytest.raises(errors.Throttled, match="ec2:TerminateInstances in us-east-1"):
        Aws(cloud, clock=clock).bounded(lambda: 12.0).terminate(MACHINE)
    assert clock.seconds < 12.0
    assert cloud.calls == len(clock.waits) + 1 > 3
    assert len(set(clock.waits)) == len(clock.waits)
    assert all(wait <= 0.2 * 2**place for place, wait in enumerate(clock.waits))


def test_a_call_without_time_left_is_made_once() -> None:
    cloud = Cloud(THROTTLED)
    with pytest.raises(errors.Throttled):
        Aws(cloud, clock=Clock()).bounded(lambda: 0.0).terminate(MACHINE)
    assert cloud.calls == 1


@pytest.mark.parametrize(
    "lost",
    [
        EndpointConnectionError(endpoint_url="https://ec2"),
        ConnectTimeoutError(endpoint_url="https://ec2"),
        ReadTimeoutError(endpoint_url="https://ec2"),
        refusal("InternalError", status=500),
        refusal("Unknown", status=503),
        ResponseParserError("<html>"),
    ],
)
def test_a_lost_answer_has_a_repeatable_call_sent_again_and_never_a_reboot(lost: Any) -> None:
    again = Cloud(lost, ENDED)
    assert Aws(again, clock=Clock()).terminate(MACHINE) == "shutting-down"
    assert again.calls == 2
    once = Cloud(lost, {})
    with pytest.raises((errors.Unreachable, errors.ServerError)):
        Aws(once, clock=Clock()).reboot(MACHINE)
    assert once.calls == 1


def test_a_reboot_that_was_throttled_is_tried_again() -> None:
    cloud = Cloud(THROTTLED, {})
    Aws(cloud, clock=Clock()).reboot(MACHINE)
    assert cloud.calls == 2


@pytest.mark.parametrize(
    ("code", "message", "kind"),
    [
        ("UnauthorizedOperation", "", errors.Unauthorised),
        ("AccessDenied", "", errors.Unauthorised),
        ("ExpiredToken", "", errors.CredentialsExpired),
        ("RequestExpired", "", errors.CredentialsExpired),
        ("OperationNotPermitted", "disableApiTermination", errors.Protected),
        ("InvalidInstanceID.NotFound", "", errors.NotFound),
        ("ValidationError", "Instance Id not found - No managed instance found", errors.NotFound),
        ("ValidationError", "No active Lifecycle Action found", errors.NotFound),
        ("ValidationError", "1 validation error detected", errors.Invalid),
        ("IncorrectInstanceState", "", errors.AlreadyTerminating),
        ("InsufficientInstanceCapacity", "", errors.NoCapacity),
        ("SomethingNew", "", errors.Refused),
    ],
)
def test_a_refusal_for_good_is_named_and_not_tried_again(
    code: str, message: str, kind: type[errors.Refused]
) -> None:
    cloud = Cloud(refusal(code, message))
    with pytest.raises(errors.AwsError) as refused:
        Aws(cloud, clock=Clock()).terminate(MACHINE)
    assert type(refused.value) is kind
    assert cloud.calls == 1
    assert code in str(refused.value)


class _Busy(http.server.BaseHTTPRequestHandler):
    asked: list[str] = []  # noqa: RUF012

    def do_POST(self) -> None:
        self.asked.append(self.path)
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(503)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


def test_nothing_is_tried_again_behind_our_back(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    _Busy.asked.clear()
    with http.server.HTTPServer(("127.0.0.1", 0), _Busy) as server:
        serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        serving.start()
        clients = Clients(endpoint=f"http://127.0.0.1:{server.server_port}")
        with pytest.raises(errors.ServerError):
            Aws(clients, seconds=0.0).account("us-east-1")
        server.shutdown()
        serving.join()
    assert len(_Busy.asked) == 1


def test_after_an_expired_credential_the_next_call_reads_them_anew() -> None:
    cloud = Cloud(refusal("ExpiredToken"))
    with pytest.raises(errors.CredentialsExpired):
        Aws(cloud, clock=Clock()).terminate(MACHINE)
    assert cloud.renewed == 1


def test_no_credentials_is_said_as_that() -> None:
    cloud = Cloud(NoCredentialsError())
    with pytest.raises(errors.NotConfigured, match="Unable to locate credentials"):
        Aws(cloud, clock=Clock()).terminate(MACHINE)
    assert cloud.renewed == 1


@pytest.mark.parametrize("code", sorted(errors.BY_CODE))
def test_every_code_of_the_table_makes_the_error_that_it_names(code: str) -> None:
    made = errors.of_answer("ec2:X", {"Error": {"Code": code, "Message": "no"}})
    assert type(made) is errors.BY_CODE[code]
    assert (made.code, made.message) == (code, "no")
