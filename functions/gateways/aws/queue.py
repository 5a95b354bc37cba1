"""One SQS queue: receive, delete, hide for longer, give back, send.

https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-visibility-timeout.html

A message that was received is hidden from others for its visibility timeout. Each reception gives
it another receipt handle, and only the newest one is sure to delete it.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from functions.gateways.aws import calls, errors
from functions.gateways.clock import Clock, SystemClock

A_CALL = 10
"""Messages that SQS takes or gives in one call."""
CHANGE_SECONDS = 8.0
"""For a deletion or a change of visibility with its retries."""
FORWARDED = "groundcrew.forwarded"
"""Message attribute: this message came from another queue, and goes on to no third one."""

_HOST = re.compile(r"(?:sqs|queue)\.([a-z0-9-]+)\.(?:amazonaws\.com|api\.aws)(?:\.cn)?")
_VPC_HOST = re.compile(r".*\.sqs\.([a-z0-9-]+)\.vpce\.amazonaws\.com(?:\.cn)?")


@dataclass(frozen=True)
class Message:
    message_id: str
    handle: str
    body: str
    receives: int = 1
    """How often it has been received, now included."""
    forwarded: bool = False


@dataclass(frozen=True)
class About:
    """What the queue says of itself."""

    dead_letters: bool
    """Messages received too often go to a dead-letter queue."""


class Queue:
    def __init__(
        self,
        url: str,
        *,
        region: str = "",
        wait_seconds: int = 5,
        connections: int = calls.CONNECTIONS,
        clock: Clock | None = None,
    ) -> None:
        """``wait_seconds`` is how long one `receive` waits for a message (a long poll, 20 at
        most). Raises ValueError for a URL that is none, or that names no region where none is
        given."""
        parts = urlsplit(url)
        host = parts.hostname or ""
        if parts.scheme not in ("http", "https") or not host or parts.path in ("", "/"):
            raise ValueError(f"{url!r} is no URL of a queue (https://sqs.REGION.amazonaws.com/...)")
        match = _HOST.fullmatch(host) or _VPC_HOST.fullmatch(host)
        self.region = region or (match[1] if match else "")
        if not self.region:
            raise ValueError(f"{url!r} names no region: give it with --region or AWS_REGION")
        self.url = url
        self._wait = wait_seconds
        self._clock = clock or SystemClock()
        self._clients = calls.Clients(
            read_seconds=wait_seconds + calls.READ_SECONDS,
            connections=connections,
            # botocore sends to its own idea of SQS's address, whatever the queue's URL says.
            endpoint=f"{parts.scheme}://{parts.netloc}",
        )

    def about(self) -> About:
        said = self._once("GetQueueAttributes", AttributeNames=["RedrivePolicy"])
        return About(dead_letters="RedrivePolicy" in said.get("Attributes", {}))

    def receive(self, visibility_seconds: int) -> list[Message]:
        """Up to ten messages, hidden from others for that long; none after a long wait. One
        attempt."""
        said = self._once(
            "ReceiveMessage",
            MaxNumberOfMessages=A_CALL,
            WaitTimeSeconds=self._wait,
            VisibilityTimeout=visibility_seconds,
            MessageSystemAttributeNames=["ApproximateReceiveCount"],
            MessageAttributeNames=[FORWARDED],
        )
        return [
            Message(
                message_id=one["MessageId"],
                handle=one["ReceiptHandle"],
                body=one["Body"],
                receives=int(one.get("Attributes", {}).get("ApproximateReceiveCount", 1)),
                forwarded=FORWARDED in one.get("MessageAttributes", {}),
            )
            for one in said.get("Messages", ())
        ]

    def delete(self, handles: Sequence[str]) -> list[str]:
        """Returns those of ``handles`` that SQS did not take: their messages come again."""
        return self._change("DeleteMessageBatch", handles)

    def hide(self, handles: Sequence[str], seconds: int) -> list[str]:
        """Hide messages for so many seconds from now; 0 gives them back at once. Returns those
        that SQS did not take: they are visible, or were deleted."""
        return self._change("ChangeMessageVisibilityBatch", handles, VisibilityTimeout=seconds)

    def send(self, body: str) -> None:
        """Put a message in, marked as forwarded."""
        mark = {FORWARDED: {"DataType": "String", "StringValue": "yes"}}
        self._again("SendMessage", MessageBody=body, MessageAttributes=mark)

    def _change(self, operation: str, handles: Sequence[str], **each: Any) -> list[str]:
        failed: list[str] = []
        for start in range(0, len(handles), A_CALL):
            some = handles[start : start + A_CALL]
            entries = [
                {"Id": str(place), "ReceiptHandle": handle, **each}
                for place, handle in enumerate(some)
            ]
            said = self._again(operation, Entries=entries)
            failed += (some[int(one["Id"])] for one in said.get("Failed", ()))
        return failed

    def _once(self, operation: str, **given: Any) -> Any:
        return calls.send(self._clients, "sqs", self.region, operation, QueueUrl=self.url, **given)

    def _again(self, operation: str, **given: Any) -> Any:
        until = self._clock.monotonic() + CHANGE_SECONDS
        return calls.retrying(
            self._clock, until, calls.REPEATABLE, lambda: self._once(operation, **given)
        )


def explained(problem: errors.AwsError, url: str) -> str:
    """``problem`` as a sentence with the next step."""
    match problem:
        case errors.NotFound():
            return f"there is no queue {url} for these credentials: check its URL and account"
        case errors.CredentialsExpired():
            return f"the AWS credentials have expired, and are read anew: {problem}"
        case errors.NotConfigured():
            return (
                f"no AWS credentials: {problem}; give the pod a role (IRSA or Pod Identity), or "
                "set AWS_PROFILE"
            )
        case errors.Unauthorised():
            return (
                f"not allowed: {problem}; the policy that is needed is in infra/aws/template.yaml"
            )
        case errors.Throttled():
            return f"AWS asks for patience: {problem}"
        case _:
            return str(problem)
