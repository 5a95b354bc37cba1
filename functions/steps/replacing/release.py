"""When the cloud has confirmed the end of a machine: letting go what it holds.

Pods of a StatefulSet, and volumes, stay with a Node whose kubelet is silent: nobody may start a
second writer while the first may live. That it does not live is what the cloud has just said, so
the Node is deleted, or gets the out-of-service taint (KEP-2268), if it still stands for that
machine and no other.
"""

from functions.gateways.kubernetes import errors, json_patch, types
from functions.gateways.kubernetes.json_patch import Operation
from functions.rules.replacing.book import Entry
from functions.steps.replacing.crew import Crew

OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"


def release(crew: Crew, machine: str, entry: Entry, node: types.Node | None) -> bool:
    """Whether nothing is left to do. Only the Node of that machine, of the UID it had."""
    how = crew.policy.replace.after_end
    if node is None or how == "nothing" or node.provider_id != machine:
        return True
    if entry.uid and node.metadata.uid != entry.uid:
        # Registered anew by a machine that is gone: somebody is wrong, and it is not ours to guess.
        return True
    try:
        if how == "delete-node":
            crew.cluster.delete_node(node.name, uid=node.metadata.uid)
        else:
            _taint(crew, node)
    except errors.NotFound:
        return True
    except (errors.Conflict, errors.TestFailed):
        return False  # changed meanwhile: the next look reads it again
    return True


def _taint(crew: Crew, node: types.Node) -> None:
    taints = node.spec.taints
    if any(taint.key == OUT_OF_SERVICE for taint in taints or ()):
        return
    made = {"key": OUT_OF_SERVICE, "value": "nodeshutdown", "effect": "NoExecute"}
    tests: list[Operation] = [
        json_patch.test("/metadata/uid", node.metadata.uid),
        json_patch.test("/spec/providerID", node.provider_id),
    ]
    if taints is None:
        tests.append(json_patch.test("/spec/taints", None))
        change = json_patch.add("/spec/taints", [made])
    else:
        version = node.metadata.resource_version
        tests.append(json_patch.test("/metadata/resourceVersion", version))
        change = json_patch.add("/spec/taints/-", made)
    crew.cluster.patch_node(node.name, [*tests, change])
