"""Whether an event was sent by a part of groundcrew, or by somebody who knows its key.

An interruption empties a node, so whoever can post to the broker or to a function could empty a
fleet. What comes out of our own queue is authenticated: only EventBridge may write there (the
queue's policy, IAM). From the consumer on it travels through a broker that takes events from anyone
in the cluster's network; so the consumer signs what it sends, and functions sign their answers.

The key is GROUNDCREW_SENDER_KEY, the same for all parts (a Secret). Where it is set, a notice of a
cloud that would empty a node and is not signed is recorded and told, no more (`doubted`), until the
cloud's API confirms it (`functions.poll`). Where it is not, the network is trusted. What was signed
can be sent again by who has seen it: that says the same of the same machine once more.

A raw body (``POST /from/<source>``) is signed at the edge if its sender shows
GROUNDCREW_INGRESS_TOKEN (``Authorization: Bearer``), as an API destination of EventBridge can.
"""

import hashlib
import hmac
from collections.abc import Mapping, Sequence

import msgspec

from events.cloudevent import CloudEvent
from events.notice import Notice

SIGNATURE = "groundcrewsig"
"""Extension attribute: HMAC-SHA256, in hexadecimal, of what must not be changed on the way. A
broker adds attributes of its own, which are left out."""
_MACHINE = ("instanceid", "node", "providerid")
_CLOUDS = ("aws.", "azure.", "gcp.")


def sign(event: CloudEvent, key: str) -> CloudEvent:
    """``event`` with our signature; without a key as it is."""
    if not key:
        return event
    extensions = {**event.extensions, SIGNATURE: _signature(event, key)}
    return msgspec.structs.replace(event, extensions=extensions)


def is_known(event: CloudEvent, key: str) -> bool:
    """Whether ``event`` bears our signature; without a key everybody is known."""
    given = event.extensions.get(SIGNATURE, "")
    return not key or hmac.compare_digest(given.encode(), _signature(event, key).encode())


def may_speak(headers: Mapping[str, str], token: str) -> bool:
    """Whether whoever posts a raw body has shown the ingress token. Names in lower case."""
    given = headers.get("authorization", "")
    return bool(token) and hmac.compare_digest(given.encode(), f"Bearer {token}".encode())


def doubted(notices: Sequence[Notice]) -> tuple[Notice, ...]:
    """``notices`` of somebody who is not known: a cloud's word no longer empties a node, whatever
    severity it has, or the policy gives it, nor takes back what would (`rules.incidents`)."""
    return tuple(
        msgspec.structs.replace(notice, unconfirmed=True)
        if notice.source.startswith(_CLOUDS)
        else notice
        for notice in notices
    )


def _signature(event: CloudEvent, key: str) -> str:
    machine = [event.extensions.get(name, "") for name in _MACHINE]
    said = [event.id, event.source, event.type, event.subject, *machine]
    body = msgspec.json.encode(said) + b"\n" + event.data
    return hmac.new(key.encode(), body, hashlib.sha256).hexdigest()
