"""What a cordon or uncordon by hand means for what groundcrew knows about the node."""

from events.notice import Severity
from functions.rules.incidents import Record
from functions.steps.cordon_by_hand import Before, Cordoned

WORDS = {Before.FREE: "made", Before.INCIDENT: "claimed"}


def short(before: Before) -> str:
    """``made``, ``claimed`` or ``kept``: for the report."""
    return WORDS.get(before, "kept")


def cordoned(done: Cordoned, by: str) -> str:
    match done.before:
        case Before.FREE:
            return "cordoned"
        case Before.INCIDENT:
            return (
                f"was cordoned for {incidents(done.record)}; held for {by} from now on, also when "
                "that is over"
            )
        case Before.CLAIMED:
            return "was cordoned already, with groundcrew"
        case Before.THEIRS:
            return "was cordoned already, by somebody else, and stays theirs"


def would(before: Before) -> str:
    """What a dry run says of it."""
    match before:
        case Before.FREE:
            return "would be cordoned"
        case Before.INCIDENT:
            return "is cordoned for an incident, and would be held for you"
        case Before.CLAIMED:
            return "is cordoned already, with groundcrew"
        case Before.THEIRS:
            return "is cordoned already, by somebody else"


def incidents(record: Record) -> str:
    """The open ones that keep the node out of service."""
    names = [i.key for i in record.open if i.severity >= Severity.CORDON]
    more = f" and {len(names) - 2} more" if len(names) > 2 else ""
    return f"{', '.join(names[:2])}{more}" if names else "an incident"
