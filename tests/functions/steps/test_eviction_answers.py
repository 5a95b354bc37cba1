"""What each answer to an eviction means."""

import json

import pytest

from functions.gateways.kubernetes import errors
from functions.steps.eviction_answers import Meaning, read


def refusal(
    code: int, message: str, cause: str = "", after: float | None = None
) -> errors.ApiError:
    details = {"causes": [{"reason": cause, "message": message}]} if cause else None
    body = {"code": code, "message": message, "details": details}
    return errors.api_error("POST /eviction", code, json.dumps(body).encode(), after)


BUDGET = "The disruption budget web needs 2 healthy pods and has 2 currently"
TWO = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not ..."
UID = "Precondition failed: UID in precondition: a, UID in object meta: b"
RBAC = 'pods "web" is forbidden: User "x" cannot create resource "pods/eviction" in API group ""'


@pytest.mark.parametrize(
    ("problem", "meaning"),
    [
        (None, Meaning.ACCEPTED),
        (refusal(404, "not found"), Meaning.GONE),
        (refusal(409, UID), Meaning.GONE),
        (refusal(409, "the object has been modified"), Meaning.LATER),
        (refusal(429, BUDGET, "DisruptionBudget"), Meaning.BUDGET),
        (refusal(429, "still being processed", "DisruptionBudget", 10), Meaning.LATER),
        (refusal(429, "too many requests, please try again later", after=1), Meaning.LATER),
        (refusal(403, "is being terminated", "NamespaceTerminating"), Meaning.ENDING),
        (refusal(403, RBAC), Meaning.NEVER),
        (refusal(403, 'admission webhook "x" denied the request: wait'), Meaning.LATER),
        (refusal(422, "ValidatingAdmissionPolicy denied request"), Meaning.LATER),
        (refusal(500, TWO), Meaning.NEVER),
        (refusal(500, "Internal error occurred: failed calling webhook: EOF"), Meaning.LATER),
        (refusal(504, "timeout", after=10), Meaning.LATER),
        (refusal(401, "Unauthorized"), Meaning.LATER),
        (errors.Unreachable("reset"), Meaning.LATER),
    ],
)
def test_each_answer_has_its_meaning(
    problem: errors.KubernetesError | None, meaning: Meaning
) -> None:
    said = read(problem)
    assert said.meaning is meaning
    assert said.heard is not isinstance(problem, errors.Unreachable | errors.Unauthorized)
    assert bool(said.why) is (meaning not in (Meaning.ACCEPTED, Meaning.GONE))


def test_what_the_server_asks_to_wait_is_kept() -> None:
    assert read(refusal(429, "later", after=7)).after_seconds == 7
