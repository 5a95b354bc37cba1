"""What AWS's refusals mean to us.

AwsError
├── NotConfigured           no credentials are to be had; no request was sent
├── WrongRegion             a region that we are not set up for; no request was sent
├── WrongAccount            the credentials are another account's than the machine
├── Unreachable             no answer: refused, reset, timed out (whether it was done is unknown)
└── Refused                 an answer that is an error
    ├── Throttled           too many requests: later
    ├── Busy                something else is being done to the same group or instance: later
    ├── ServerError         5xx, or an answer that cannot be read: later
    ├── CredentialsExpired  who we are is no longer taken
    ├── Unauthorised        who we are may not do this
    ├── Protected           protected against termination, or in a state that forbids it
    ├── AlreadyTerminating  the instance is on its way out, or gone
    ├── NotFound            no such instance, group, queue or lifecycle action
    ├── NoCapacity          the cloud has no machine of that kind, or the account's limit is reached
    └── Invalid             the request is not one that it takes: a mistake of ours

Which code means what is the table `BY_CODE`. What is not in it is a `Refused` and is not retried.
https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html,
https://docs.aws.amazon.com/autoscaling/ec2/APIReference/CommonErrors.html
"""

from collections.abc import Mapping
from typing import Any


class AwsError(Exception):
    """Anything that kept a call from being carried out."""


class NotConfigured(AwsError): ...


class WrongRegion(AwsError): ...


class WrongAccount(AwsError): ...


class Unreachable(AwsError): ...


class Refused(AwsError):
    def __init__(self, call: str, code: str, message: str, status: int = 0) -> None:
        self.call = call
        self.code = code
        self.message = message
        self.status = status
        super().__init__(f"{call}: {code}: {message}".rstrip(": "))


class Throttled(Refused): ...


class Busy(Refused): ...


class ServerError(Refused): ...


class CredentialsExpired(Refused): ...


class Unauthorised(Refused): ...


class Protected(Refused): ...


class AlreadyTerminating(Refused): ...


class NotFound(Refused): ...


class NoCapacity(Refused): ...


class Invalid(Refused): ...


BY_CODE: Mapping[str, type[Refused]] = {
    **dict.fromkeys(
        (
            "Throttling",
            "ThrottlingException",
            "ThrottledException",
            "RequestThrottled",
            "RequestThrottledException",
            "RequestLimitExceeded",
            "TooManyRequestsException",
            "BandwidthLimitExceeded",
            "EC2ThrottledException",
            "SlowDown",
            "KmsThrottled",
            "AWS.SimpleQueueService.OverLimit",
            "OverLimit",
        ),
        Throttled,
    ),
    **dict.fromkeys(
        ("ScalingActivityInProgress", "ResourceContention", "ResourceInUse", "ConcurrentAccess"),
        Busy,
    ),
    **dict.fromkeys(
        (
            "InternalError",
            "InternalFailure",
            "InternalServerError",
            "ServiceUnavailable",
            "ServiceUnavailableException",
            "Unavailable",
            "ServerInternal",
        ),
        ServerError,
    ),
    **dict.fromkeys(
        ("ExpiredToken", "ExpiredTokenException", "RequestExpired", "TokenRefreshRequired"),
        CredentialsExpired,
    ),
    **dict.fromkeys(
        (
            "AccessDenied",
            "AccessDeniedException",
            "AuthFailure",
            "AuthorizationError",
            "AWS.SimpleQueueService.AccessDenied",
            "Blocked",
            "IncompleteSignature",
            "InvalidClientTokenId",
            "InvalidSecurity",
            "MissingAuthenticationToken",
            "NotAuthorized",
            "OptInRequired",
            "PendingVerification",
            "SignatureDoesNotMatch",
            "UnauthorizedOperation",
            "UnrecognizedClientException",
        ),
        Unauthorised,
    ),
    **dict.fromkeys(("OperationNotPermitted", "UnsupportedOperation"), Protected),
    "IncorrectInstanceState": AlreadyTerminating,
    **dict.fromkeys(
        (
            "InvalidInstanceID.NotFound",
            "InvalidSpotInstanceRequestID.NotFound",
            "ResourceNotFoundException",
            "QueueDoesNotExist",
            "AWS.SimpleQueueService.NonExistentQueue",
        ),
        NotFound,
    ),
    **dict.fromkeys(
        (
            "InsufficientInstanceCapacity",
            "InsufficientHostCapacity",
            "InsufficientReservedInstanceCapacity",
            "InstanceLimitExceeded",
            "MaxSpotInstanceCountExceeded",
            "ReservationCapacityExceeded",
            "VcpuLimitExceeded",
        ),
        NoCapacity,
    ),
    **dict.fromkeys(
        (
            "InvalidInstanceID.Malformed",
            "InvalidParameterCombination",
            "InvalidParameterValue",
            "MissingParameter",
            "ValidationError",
        ),
        Invalid,
    ),
}
"""By error code. Codes are the same in every region; services differ in how they spell one."""

_GONE = ("not found", "no active lifecycle action", "does not exist", "no managed instance")
"""How Auto Scaling says that there is no such thing: the code is ValidationError for all it does
not like, so that its sentence must be read."""


def of_answer(call: str, answer: Mapping[str, Any]) -> Refused:
    """The error for an answer that botocore read as one (``ClientError.response``)."""
    said = answer.get("Error", {})
    code, message = str(said.get("Code", "")), str(said.get("Message", ""))
    status = int(answer.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    kind = BY_CODE.get(code)
    if kind is Invalid and any(words in message.lower() for words in _GONE):
        kind = NotFound
    if kind is None:
        kind = ServerError if status >= 500 else Throttled if status == 429 else Refused
    return kind(call, code, message, status)
