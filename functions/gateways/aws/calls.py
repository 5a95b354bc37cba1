"""How one call reaches AWS: clients by service and region, timeouts, and retries in a deadline.

botocore's own retries are off. It would sleep out of our sight, up to 20 s a time, and under a
retrying caller each of its attempts would be multiplied. What is tried again here, and how often,
is said by the caller, who knows whether the call may be made twice and when it must be over.
"""

import threading
from collections.abc import Callable
from typing import Any

from functions.gateways.aws import errors
from functions.gateways.clock import Clock

CONNECT_SECONDS = 2.0
READ_SECONDS = 5.0
"""Of one attempt. EC2 answers within a second; what takes longer is tried anew."""
CONNECTIONS = 8
"""Of one client: small, since a pool of idle connections is memory."""
FIRST_WAIT_SECONDS = 0.2
MOST_WAIT_SECONDS = 5.0

Kinds = tuple[type[errors.AwsError], ...]

NOT_DONE: Kinds = (errors.Throttled, errors.Busy)
"""Refusals after which the call has surely not been carried out."""
REPEATABLE: Kinds = (*NOT_DONE, errors.Unreachable, errors.ServerError)
"""And those that leave it open, for calls that change nothing the second time."""


class Clients:
    """botocore's clients, one for each service and region, made on use. Threads share them."""

    def __init__(
        self,
        *,
        read_seconds: float = READ_SECONDS,
        connections: int = CONNECTIONS,
        endpoint: str = "",
        session: Callable[[], Any] | None = None,
    ) -> None:
        """``endpoint`` replaces AWS's own addresses; where it is empty, botocore's variables hold
        (AWS_ENDPOINT_URL and its kin)."""
        self._read_seconds = read_seconds
        self._connections = connections
        self._endpoint = endpoint or None
        self._make = session or _session
        self._session: Any = None
        self._lock = threading.Lock()
        self._made: dict[tuple[str, str], Any] = {}

    def get(self, service: str, region: str) -> Any:
        # A session is not made for threads, its clients are.
        with self._lock:
            key = (service, region)
            if key not in self._made:
                self._made[key] = self._client(service, region)
            return self._made[key]

    @property
    def session(self) -> Any:
        """botocore's session, for what is signed by hand."""
        with self._lock:
            return self._opened()

    def renew(self) -> None:
        """Read the credentials anew on the next call: these are not taken any more."""
        with self._lock:
            self._session = None
            self._made.clear()

    def _opened(self) -> Any:
        if self._session is None:
            self._session = self._make()
        return self._session

    def _client(self, service: str, region: str) -> Any:
        from botocore.config import Config

        config = Config(
            connect_timeout=CONNECT_SECONDS,
            read_timeout=self._read_seconds,
            max_pool_connections=self._connections,
            retries={"mode": "standard", "total_max_attempts": 1},
            user_agent_extra="groundcrew",
        )
        return self._opened().create_client(
            service, region_name=region, endpoint_url=self._endpoint, config=config
        )


def _session() -> Any:
    from botocore.session import get_session

    return get_session()


def send(clients: Clients, service: str, region: str, operation: str, **given: Any) -> Any:
    """One attempt: what AWS answers, or the `errors.AwsError` that its refusal is."""
    from botocore import exceptions, xform_name
    from botocore.parsers import ResponseParserError

    call = f"{service}:{operation} in {region}"
    try:
        return getattr(clients.get(service, region), xform_name(operation))(**given)
    except exceptions.ClientError as problem:
        refused = errors.of_answer(call, problem.response)
        if isinstance(refused, errors.CredentialsExpired):
            clients.renew()
        raise refused from problem
    except (
        exceptions.NoCredentialsError,
        exceptions.PartialCredentialsError,
        exceptions.CredentialRetrievalError,
        exceptions.TokenRetrievalError,
        exceptions.UnauthorizedSSOTokenError,
        exceptions.ProfileNotFound,
        exceptions.ConfigParseError,
        exceptions.InvalidConfigError,
    ) as problem:
        clients.renew()
        raise errors.NotConfigured(f"{call}: {problem}") from problem
    except (exceptions.HTTPClientError, exceptions.ConnectionError) as problem:
        raise errors.Unreachable(f"{call}: {problem}") from problem
    except ResponseParserError as problem:
        # A proxy's HTML, or a body that was cut.
        raise errors.ServerError(call, "unreadable", str(problem)[:200]) from problem
    except exceptions.ParamValidationError as problem:
        raise errors.Invalid(call, "ParamValidation", str(problem)) from problem


def retrying(clock: Clock, until: float, kinds: Kinds, act: Callable[[], Any]) -> Any:
    """``act`` until it succeeds, fails in a way that is none of ``kinds``, or the time of
    ``clock.monotonic()`` would be past ``until``; then the last error is raised.

    Waits are drawn from 0 up to a bound that doubles from `FIRST_WAIT_SECONDS`: a hundred callers
    that were throttled together must not come back together.
    """
    from tenacity import RetryCallState, Retrying, retry_if_exception_type, wait_random_exponential

    def is_over(state: RetryCallState) -> bool:
        return clock.monotonic() + state.upcoming_sleep >= until

    return Retrying(
        stop=is_over,
        wait=wait_random_exponential(multiplier=FIRST_WAIT_SECONDS, max=MOST_WAIT_SECONDS),
        retry=retry_if_exception_type(kinds),
        sleep=clock.sleep,
        reraise=True,
    )(act)
