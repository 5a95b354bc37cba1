"""Whether a pod tolerates a taint (the rules of corev1.Toleration)."""

from infra.local.cluster.objects import Object, spec_of


def tolerates(toleration: Object, taint: Object) -> bool:
    effect, key = toleration.get("effect"), toleration.get("key")
    if effect and effect != taint.get("effect"):
        return False
    if key and key != taint.get("key"):
        return False
    operator = toleration.get("operator") or "Equal"
    if operator == "Exists":
        return True
    return bool(key) and (toleration.get("value") or "") == (taint.get("value") or "")


def untolerated(pod: Object, node: Object, effects: tuple[str, ...]) -> Object | None:
    """The first taint of the node with one of ``effects`` that keeps the pod away."""
    tolerations = spec_of(pod).get("tolerations") or ()
    for taint in spec_of(node).get("taints") or ():
        if taint.get("effect") in effects and not any(tolerates(one, taint) for one in tolerations):
            found: Object = taint
            return found
    return None
