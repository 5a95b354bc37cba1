"""What the API server's answer to an eviction means for the pod.

The server's side is pkg/registry/core/pod/storage/eviction.go; webhooks and admission policies
add answers of their own, and priority and fairness adds 429s that are about nobody's budget.
"""

import enum
from dataclasses import dataclass

from functions.gateways.kubernetes import errors


class Meaning(enum.Enum):
    ACCEPTED = enum.auto()
    GONE = enum.auto()
    """No such pod any more; the name may already be another's."""
    BUDGET = enum.auto()
    """A disruption budget has nothing left: again when its status says so."""
    ENDING = enum.auto()
    """Its namespace is ending, which deletes the pod: nothing to ask for."""
    LATER = enum.auto()
    """Refused or unheard for now: again after a pause."""
    NEVER = enum.auto()
    """Asking again would be answered the same."""


@dataclass(frozen=True)
class Said:
    meaning: Meaning
    why: str = ""
    after_seconds: float | None = None
    """How long the server wants us to wait (Retry-After)."""
    heard: bool = True
    """False: no answer came, so nobody refused it."""


def read(problem: errors.KubernetesError | None) -> Said:
    match problem:
        case None:
            return Said(Meaning.ACCEPTED)
        case errors.NotFound():
            return Said(Meaning.GONE)
        case errors.Conflict() if "precondition" in problem.status.message.lower():
            return Said(Meaning.GONE)
        case errors.TooManyRequests() if problem.has_cause("DisruptionBudget"):
            if problem.retry_after_seconds:
                # Its controller has not looked yet ("still being processed").
                return Said(Meaning.LATER, _words(problem), problem.retry_after_seconds)
            return Said(Meaning.BUDGET, _words(problem))
        case errors.TooManyRequests() | errors.ServerError() if _two_budgets(problem):
            return Said(Meaning.NEVER, _words(problem))
        case errors.Forbidden() if problem.has_cause("NamespaceTerminating"):
            return Said(Meaning.ENDING, "its namespace is ending")
        case errors.Forbidden() if _by_rbac(problem):
            return Said(Meaning.NEVER, f"we may not evict it: {problem.status.message}")
        case errors.Unauthorized():
            return Said(Meaning.LATER, "the API server does not know us (401)", heard=False)
        case errors.ApiError():
            return Said(Meaning.LATER, _words(problem), problem.retry_after_seconds)
        case _:
            return Said(Meaning.LATER, f"no answer: {problem}", heard=False)


def _two_budgets(problem: errors.ApiError) -> bool:
    # A Failure of code 500 without a reason: its message is all that tells it from a crash.
    return "more than one PodDisruptionBudget" in problem.status.message


def _by_rbac(problem: errors.Forbidden) -> bool:
    """Refused by the authorizer, which answers about a user and a verb; a webhook or an admission
    policy, which may answer otherwise in a minute, never uses these words."""
    message = problem.status.message
    return "is forbidden: User " in message and " cannot " in message


def _words(problem: errors.ApiError) -> str:
    causes = "; ".join(cause.message for cause in problem.causes if cause.message)
    return causes or problem.status.message or f"status {problem.status.code}"
