"""What a drain must do, row by row, beside what kubectl does.

Every row is shown by a test of this folder (`shows`), and the table in docs/drain-conformance.md
is made from here (``python -m tests.controlplane.conformance.rows``); a test holds both to it.
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeVar

Test = TypeVar("Test", bound=Callable[..., None])

DOCUMENT = Path(__file__).parents[3] / "docs" / "drain-conformance.md"


class Row(NamedTuple):
    when: str
    kubectl: str
    ours: str
    why: str = ""
    """Why it differs; empty where it does not."""


CORDON = {
    "C1": Row(
        "a node in service is cordoned",
        "unschedulable; the controller manager adds the taint",
        "the same, and the cordon says whose it is",
        "a person's cordon must not be undone when an incident is over",
    ),
    "C2": Row(
        "it was cordoned before, by somebody else",
        "no PATCH, goes on",
        "the same; it stays theirs",
    ),
    "C3": Row(
        "the PATCH is not allowed by RBAC",
        "evicts, and says drained with exit code 0",
        "refused before anything is asked",
        "evicting from a node that takes new pods empties nothing",
    ),
    "C4": Row(
        "the PATCH is denied by admission",
        "evicts, and says drained with exit code 0",
        "no eviction, exit code 2; cordons of other nodes are taken back",
        "the same",
    ),
    "C5": Row(
        "the PATCH fails once with 500",
        "not tried again, evicts from a schedulable node",
        "tried again until the node is cordoned, then evicts",
        "the same",
    ),
    "C7": Row(
        "cordoned by its owner, drained by us, then released by us",
        "uncordon takes the owner's cordon off",
        "it stays cordoned",
        "we undo only what is marked as ours",
    ),
    "C8": Row(
        "a node is uncordoned",
        "schedulable; the taint comes off",
        "the same; where it was cordoned for an incident, that is dismissed and said so",
        "a human's decision outranks ours",
    ),
}

FILTERS = {
    "F1": Row("a static (mirror) pod", "skipped silently", "left alone, and reported",
              "what stays on a node is part of the answer"),
    "F2": Row("pods of a DaemonSet", "with --ignore-daemonsets: skipped, one GET each",
              "left alone by default; one LIST for all", "a node without any is rare"),
    "F3": Row("pods of a DaemonSet, not to be ignored", "refused, the node stays cordoned",
              "with --ignore-daemonsets=false: refused, the node stays in service",
              "a refusal changes nothing"),
    "F4": Row("pods whose DaemonSet was deleted from under them", "refused; evicted with --force",
              "the same, refused before the cordon", "a refusal changes nothing"),
    "F7": Row("a pod with emptyDir, and a plain one", "neither is evicted, the node stays cordoned",
              "refused, the node stays in service", "a refusal changes nothing"),
    "F8": Row("a pod without a controller", "refused, the node stays cordoned",
              "refused, the node stays in service", "a refusal changes nothing"),
    "F9": Row("a finished pod without controller, with emptyDir", "evicted", "the same"),
    "F10": Row("a finished pod of a DaemonSet", "evicted", "the same"),
    "F11": Row("a pod whose ReplicaSet is gone", "evicted without --force",
               "the same, with a warning", "nobody makes it anew"),
    "F12": Row("a pod that keeps data on the node (hostPath, local volume)", "evicted silently",
               "evicted, with a warning", "what is lost is said before"),
    "F13": Row("1,200 pods, more than two pages of a LIST", "all", "the same"),
}  # fmt: skip

EVICTIONS = {
    "E1": Row("110 pods that stop at once", "five a second: 20 s",
              "as fast as the policy lets it (100 a second)", "see the bench in the README"),
    "E2": Row("110 pods that take 30 s to stop", "60 s", "33 s at most", "all are asked at once"),
    "E3": Row("a budget lets one of ten go at a time, a new one takes 2 s",
              "looks every 5 s: 46 s",
              "the next goes as soon as the budget allows it: 22 s at most",
              "budgets are watched"),
    "E4": Row("a budget that never allows, --timeout=3s", "exit code 1 after 5.5 s",
              "exit code 1 after 3 s, the budget named", "the deadline is one for everything"),
    "E6": Row("two budgets over one pod", "tried once, the others go, exit code 1",
              "not tried; the others go; both budgets named", "evictions refuse it always"),
    "E8": Row("all pods of a budget are not ready", "tried for ever",
              "said that the app is unhealthy", "who reads it can act"),
    "E9": Row("the same, with AlwaysAllow", "evicted", "the same"),
    "E10": Row("a pod that never started, and a budget of none", "evicted", "the same"),
    "E11": Row("a pod that is terminating, and a budget of none", "waited for",
               "the same; it is not asked again"),
    "E12": Row("default options", "no gracePeriodSeconds is sent", "the same"),
    "E13": Row("a StatefulSet's pod moves while its budget holds it", "evicts it on the other node",
               "the moved pod is not touched, drained", "pods are known by UID"),
    "E14": Row("a StatefulSet's pod comes back at once elsewhere", "over when the UID is another",
               "the same"),
    "E15": Row("an eviction of a pod that has been replaced", "evicts the new one",
                "409, the new pod stays; its budget is one less for two minutes",
               "every eviction carries the UID; pods are watched, so it is rare"),
    "E16": Row("the namespace is ending", "tried again, then over", "waited for, then over"),
    "E17": Row("an eviction fails once with 500", "exit code 1 at once", "tried again, drained",
               "an API server that is restarted says that"),
    "E19": Row("a webhook denies three times, then allows", "exit code 1 at once",
               "tried again with growing pauses, drained", "webhooks deny while they prepare"),
    "E20": Row("a webhook answers 429 three times", "every 5 s", "sooner, drained"),
    "E21": Row("priority and fairness answers 429 with Retry-After",
               "waits silently, past its own --timeout", "waits as long as asked, drained"),
    "E22": Row("no right to evict", "exit code 1, the node stays cordoned",
               "refused before the cordon", "a refusal changes nothing"),
}  # fmt: skip

WAITING = {
    "W1": Row("a pod is bound after the LIST", "never seen, says drained", "evicted, too",
              "a bind may be under way when the node is cordoned"),
    "W3": Row("the API server restarts in the middle", "exit code 1", "goes on",
              "nothing is lost by waiting"),
    "W4": Row("a pod with somebody's finalizer, --timeout", "timed out",
              "timed out, the finalizer named", "who reads it can act"),
    "W5": Row("the kubelet is lost, --skip-wait-for-delete-timeout=1",
              "waits for the whole grace and longer", "ends soon, and says to fence the machine",
              "nobody there counts the grace"),
    "W7": Row("somebody uncordons in the middle", "goes on evicting", "stops",
              "it is their decision"),
    "W8": Row("the node is deleted in the middle", "waits for its pods", "ends, and says so",
              "there is nothing to drain"),
    "W9": Row("the token expires in the middle", "exit code 1",
              "read anew and goes on; ends after ten seconds, and says so, when it stays bad",
              "a token is renewed by somebody else"),
    "W10": Row("another node gets its name in the middle", "waits for its pods, and says drained",
               "ends, and says so; the new node and its pods are not touched",
               "a node is its UID, not its name"),
    "W11": Row("our own clock is five minutes ahead, --skip-wait-for-delete-timeout=60",
               "skips pods that have only just been asked to leave", "waits for them",
               "time is the API server's, who wrote it on the pods"),
}  # fmt: skip

MORE = {
    "M1": Row("two nodes with pods that take 10 s", "one after the other: 21 s",
              "in the time of one: 11 s at most",
              "all are cordoned first, then emptied side by side"),
    "M2": Row("two nodes share a budget", "never broken", "the same"),
    "M4": Row("Ctrl-C in the middle", "ends at once", "no request is left; how far each node is",
              "who interrupts wants to know"),
    "D1": Row("dry run, a budget of none", "--dry-run=server hangs",
              "the plan with what is in the way; nothing is written", "that is the question"),
    "D2": Row("dry run with --disable-eviction", "hangs before 1.37", "not taken, says why",
              "budgets are passed by policy only"),
    "G1": Row("a gang has one of four pods on the node", "evicts it at once",
              "all four are warned; it goes when they are ready, or the notice is over",
              "the other three would compute for nothing"),
    "R1": Row("drained a second time", "no eviction", "no write at all"),
}  # fmt: skip

REPORTS = {
    "S4": Row("a budget frees after a while (kubernetes.core#474)", "waits up to 5 s more",
              "goes on at once", "budgets are watched"),
    "S5": Row("a pod takes a while to stop (k/k#34782)", "returns when it is gone", "the same"),
    "S8": Row("the answer to the PATCH of the cordon never comes (lifecycle-manager#164)",
              "exit code 1, or evicts from a schedulable node", "looked at again, then evicts",
              "what was asked may have been done"),
    "S14": Row("the replacements find no node (k/k#91141)", "not waited for", "the same"),
    "S15": Row("one replica and minAvailable 1 (k/k#66811)", "tried for ever",
               "ends in seconds, says that it can never succeed", "waiting cannot help"),
    "S18": Row("a Deployment tolerates the cordon (cluster-api#6894)",
               "says drained, pods are back",
               "gives up after two rounds, and says who puts them back",
               "not drained is not drained"),
    "S19": Row("pods are made with spec.nodeName (k/k#117843)", "says drained, pods are back",
               "the same as above", "not drained is not drained"),
    "S20": Row("a finished pod of a Job (k/k#26080)", "evicted without --force", "the same"),
    "S22": Row("a webhook hangs up on an eviction (deckhouse#23007)", "exit code 1 at once",
               "tried again, drained", "who restarts hangs up"),
    "S29": Row("one pod of twenty is stuck (NTH#936)", "timed out", "that one is named, alone",
               "who reads it can act"),
    "S30": Row("the deadline, and after it (gardener mcm#785)", "up to ten retries later",
               "holds to a second, and nothing is asked after it", "the deadline is the deadline"),
    "S31": Row("pods held by a budget for long (karpenter#2399)", "each tried every 5 s",
               "none is tried while the budget allows none", "each try costs etcd writes"),
    "S33": Row("volumes that are still attached (karpenter#1684)", "not looked at",
               "those of the pods that left are waited for, others are not",
               "a volume cannot be mounted elsewhere before"),
    "S35": Row("the drain itself (website#7829)", "no taint", "no taint but that of the cordon"),
    "S37": Row("a Job forgives disruptions and waits before it tries again (k/k#130881)",
               "not waited for", "the same"),
    "S39": Row("a finalizer on a pod, and its kubelet dead (k/k#127917)", "waits for ever",
               "both are named", "who reads it can act"),
    "S42": Row("connections are reset in the middle (k/k#83795)", "goes on, or crashed once",
               "goes on; nobody is asked twice"),
}  # fmt: skip

ROWS: dict[str, Row] = CORDON | FILTERS | EVICTIONS | WAITING | MORE | REPORTS

SECTIONS = (
    ("Cordon and uncordon", CORDON),
    ("Which pods", FILTERS),
    ("Evictions", EVICTIONS),
    ("Waiting", WAITING),
    ("Several nodes, dry runs, gangs, once more", MORE),
    ("Reports from the field", REPORTS),
)

HEAD = """\
# Where groundcrew's drain differs from kubectl's

`groundcrew drain` (and the drain function, which shares its engine) beside `kubectl drain` 1.37.
Each row is a test against a real API server, `make test-cluster`, in
`tests/controlplane/conformance/`; this page is made from the rows there and checked against them.
Where the last column is empty, both do the same. Pods and seconds are those of the row; a test
grants up to four seconds more, for a machine that runs other things, too, and `make bench-drain`
grants none.
"""


def shows(*rows: str) -> Callable[[Test], Test]:
    """The test holds the drain to these rows."""

    def mark(test: Test) -> Test:
        test.rows = rows  # type: ignore[attr-defined]
        return test

    return mark


def document() -> str:
    parts = [HEAD]
    for title, rows in SECTIONS:
        parts.append(f"\n## {title}\n\n| | when | kubectl | groundcrew | why it differs |\n")
        parts.append("|---|---|---|---|---|\n")
        parts += [f"| {key} | {' | '.join(row)} |\n" for key, row in rows.items()]
    return "".join(parts)


if __name__ == "__main__":
    DOCUMENT.write_text(document())
