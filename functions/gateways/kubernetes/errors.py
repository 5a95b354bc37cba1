"""What the API server's refusals mean to us.

KubernetesError
├── NotConfigured        no cluster to speak to: no kubeconfig, and not in a pod
├── Unreachable          no answer: connection refused, reset, timed out (try again later)
├── Contended            others wrote the same object all the time (try again later)
└── ApiError             an answer that is not 2xx
    ├── Unauthorized     401, after the credentials were read anew once
    ├── Forbidden        403: RBAC, an admission policy, or a namespace that is ending
    ├── NotFound         404
    ├── Conflict         409: a stale resourceVersion, or a precondition that does not hold
    ├── Gone             410: a watch or continue token too old; list again
    ├── TestFailed       422 from a JSON Patch: a `test` failed, somebody else was faster
    ├── TooManyRequests  429: a disruption budget (see `cause`), or the server asks for patience
    └── ServerError      5xx
"""

import msgspec


class KubernetesError(Exception):
    """Anything that kept a request from being carried out."""


class NotConfigured(KubernetesError):
    """Which cluster, and as whom, is said nowhere, or not readably. No request was sent."""


class Unreachable(KubernetesError):
    """No answer came; whether the request was carried out is not known."""


class Contended(KubernetesError):
    """Lost every race for one object in the time there was: what was asked is neither done nor kept
    anywhere, so that whoever asked must ask again."""


class StatusCause(msgspec.Struct, frozen=True):
    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(msgspec.Struct, frozen=True, rename="camel"):
    causes: list[StatusCause] = []
    retry_after_seconds: int = 0


class Status(msgspec.Struct, frozen=True):
    """metav1.Status, what an API server answers when it refuses."""

    code: int = 0
    reason: str = ""
    message: str = ""
    details: StatusDetails | None = None


class ApiError(KubernetesError):
    def __init__(self, request: str, status: Status, retry_after_seconds: float | None = None):
        self.request = request
        self.status = status
        self.retry_after_seconds = retry_after_seconds
        super().__init__(f"{request}: {status.code} {status.reason} {status.message}".rstrip())

    @property
    def causes(self) -> list[StatusCause]:
        return self.status.details.causes if self.status.details else []

    def has_cause(self, reason: str) -> bool:
        return any(cause.reason == reason for cause in self.causes)


class Unauthorized(ApiError): ...


class Forbidden(ApiError): ...


class NotFound(ApiError): ...


class Conflict(ApiError): ...


class Gone(ApiError): ...


class TestFailed(ApiError):
    __test__ = False  # not a test class, whatever pytest makes of the name


class TooManyRequests(ApiError): ...


class ServerError(ApiError): ...


AWAY = (Unreachable, ServerError, TooManyRequests, Unauthorized)
"""What the server, or something before it, says while it cannot do what it is asked. A 401 is among
it: a server that begins may know nobody yet, and a token is renewed by somebody else."""

_BY_CODE: dict[int, type[ApiError]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: TestFailed,
    429: TooManyRequests,
}


def api_error(
    request: str, code: int, body: bytes, retry_after_seconds: float | None = None
) -> ApiError:
    """The error for a non-2xx answer; a body that is no Status is quoted as it is."""
    try:
        status = msgspec.json.decode(body, type=Status)
    except (msgspec.DecodeError, UnicodeDecodeError):
        status = Status(message=body[:200].decode(errors="replace"))
    if status.code != code:
        status = msgspec.structs.replace(status, code=code)
    kind = _BY_CODE.get(code, ServerError if code >= 500 else ApiError)
    return kind(request, status, retry_after_seconds)
