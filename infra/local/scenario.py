"""What a scenario file says: a cluster, what happens to it and when, and what must come of it.

One YAML file, ``events/scenarios/<name>.yaml``. Times are written as the weekday and the time of
day within the seven days after ``start``: ``Tue 14:05`` or ``Tue 14:05:30``. Where nodes are
named, a name, a pattern (``a100-*``) or a list of them will do. ``infra.local.scenario_file``
reads it.
"""

from datetime import datetime
from typing import Any, Literal

import msgspec

from functions.rules.quantities import Duration

Names = str | list[str]


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A part of the file; a field that it does not know is a mistake."""


class Pool(Section, frozen=True, kw_only=True):
    """``count`` nodes called ``<pool>-01`` and so on; the pool's name is that of the label
    ``eks.amazonaws.com/nodegroup``."""

    count: int
    instance_type: str
    gpus: int = 8
    zones: tuple[str, ...] = ("us-east-1a",)
    """Its nodes are spread over these."""
    labels: dict[str, str] = {}


class Budget(Section, frozen=True, kw_only=True):
    """A PodDisruptionBudget over a workload's pods."""

    name: str = ""
    """That of its workload, unless it says otherwise."""
    min_available: int | str | None = None
    max_unavailable: int | str | None = None


class Workload(Section, frozen=True, kw_only=True):
    name: str
    kind: Literal["Deployment", "StatefulSet", "DaemonSet", "Job", "Pod", "Balloon"] = "Deployment"
    """A Balloon is a Deployment of placeholder pods; a Pod has no controller."""
    namespace: str = "default"
    pool: str = ""
    nodes: Names = []
    """Those that its pods may be on, where the pool is not enough."""
    replicas: int = 1
    gpus: int = 0
    """Per pod."""
    grace_seconds: int = 30
    stop_seconds: float | None = None
    """How long its pods take to end, of their grace."""
    labels: dict[str, str] = {}
    budgets: list[Budget] = []


class Cloud(Section, frozen=True, kw_only=True):
    """How the cloud behaves that is asked for reboots and ends."""

    replaced_after: Duration = Duration(minutes=8)
    """From the end of a machine until another one registers, under the same name."""
    reboots_in: Duration = Duration(minutes=4)
    heals: Names = []
    """Nodes whose faults a reboot heals; of all others they are still there afterwards."""
    same_host: Names = []
    """Nodes that are given the same hardware again. GPU UUIDs are said where any are."""


class Cluster(Section, frozen=True, kw_only=True):
    pools: dict[str, Pool]
    workloads: list[Workload] = []
    cloud: Cloud = Cloud()


class Event(Section, frozen=True, kw_only=True):
    """Something that is sent to us: a recorded event, or one written out here."""

    recorded: str = ""
    """``aws_health/closed``: a file below ``events/recorded``."""
    node: Names = ""
    """The machine that the recorded event is to be about, in place of its own; of several, each
    gets one."""
    set: dict[str, Any] = {}
    """Other values of the body: ``detail.startTime: "{Thu 10:00 gmt}"``. In texts ``{now}``,
    ``{Thu 10:00}`` and ``{Thu 10:00 gmt}`` are times, and ``{instance h100-01}``,
    ``{provider ...}``, ``{uid ...}`` and ``{boot ...}`` are what a node has at that moment."""
    path: str = "/"
    headers: dict[str, str] = {}
    body: Any = None
    """The body of an event that is written out; a text is sent as it stands."""


class Condition(Section, frozen=True, kw_only=True):
    """A node agent's word in the node's status."""

    node: Names
    type: str
    status: Literal["True", "False", "Unknown"]
    reason: str = ""
    message: str = ""


class Gpus(Section, frozen=True, kw_only=True):
    """How many GPUs the device plugin offers from now on."""

    node: Names
    count: int


class Reboot(Section, frozen=True, kw_only=True):
    """A new boot ID; the agents start anew and find nothing, unless the fault is still there."""

    node: Names
    keeps: list[str] = []
    """Conditions that are as bad as before."""
    gpus: int | None = None
    """How many GPUs come back; None: all."""


class Machine(Section, frozen=True, kw_only=True):
    node: Names


class Pause(Section, frozen=True, kw_only=True):
    """``groundcrew pause``."""

    until: str
    reason: str
    pool: str = ""


class Human(Section, frozen=True, kw_only=True):
    """Somebody at a keyboard. Exactly one of these."""

    cordon: Names = ""
    uncordon: Names = ""
    delete_pods_of: str = ""
    """Name of a workload."""
    budget: Budget | None = None
    """A changed PodDisruptionBudget, by its name."""
    annotate: dict[str, dict[str, str | None]] = {}
    """Node -> annotations; null takes one away."""
    label: dict[str, dict[str, str | None]] = {}
    pause: Pause | None = None
    resume: bool = False
    between: bool = False
    """Just before our next patch of a node, after we have read it: a race."""


class ApiServer(Section, frozen=True, kw_only=True):
    down: Duration
    """Nobody reaches it for that long; what changes meanwhile is told to nobody."""


class Functions(Section, frozen=True, kw_only=True):
    down: Duration
    """None of our processes runs for that long; what happens meanwhile is told to nobody."""


class CloudSays(Section, frozen=True, kw_only=True):
    """What the cloud answers from now on."""

    refuses: dict[str, str] = {}
    """``describe``, ``terminate`` or ``reboot`` -> ``throttled``, ``unauthorised``, ``expired``,
    ``protected`` or ``no-answer``; empty: nothing is refused."""
    strangers: Names = []
    """Nodes whose machines are another account's."""


class Decided(Section, frozen=True, kw_only=True):
    """A decision, by what it says. Empty fields match everything."""

    action: str
    node: Names = "*"
    reason: str = ""
    """A part of its reason, of what blocks it, or of its incident."""
    since: str = ""
    by: str = ""
    times: int | None = None
    """Exactly so often, all nodes together."""


class Evictions(Section, frozen=True, kw_only=True):
    at_least: int = 0
    at_most: int | None = None


class Expect(Section, frozen=True, kw_only=True):
    """What must hold. Exactly one of ``node``, ``decided``, ``never``, ``most_out``,
    ``evictions``, ``ended``."""

    because: str = ""
    """For people: the rule behind it."""

    node: Names = ""
    schedulable: bool | None = None
    state: str | None = None
    """Our label; ``none`` when it carries none."""
    incidents: dict[str, str] = {}
    """Check -> open, dismissed or closed."""
    emptied: bool | None = None
    """No pods are left but those of DaemonSets and balloons."""

    decided: Decided | None = None
    never: Decided | None = None
    most_out: dict[str, int] = {}
    """Pool (``all``: the cluster) -> how many nodes we may have out of service at once."""
    evictions: Evictions | None = None
    ended: Evictions | None = None
    """How many machines have ended for us."""


class Step(Section, frozen=True, kw_only=True):
    """One thing that happens, and what must hold right after it. At most one act."""

    at: str
    says: str = ""
    """For the timeline: what happens, in a sentence."""
    event: Event | None = None
    condition: Condition | None = None
    gpus: Gpus | None = None
    reboot: Reboot | None = None
    replaced: Machine | None = None
    """Another machine registers under the same name."""
    registered_again: Machine | None = None
    """The same machine registers anew: the Node has another UID."""
    gone: Machine | None = None
    """The VM is gone, and its Node with it."""
    human: Human | None = None
    api_server: ApiServer | None = None
    functions: Functions | None = None
    cloud: CloudSays | None = None
    expect: list[Expect] = []

    times: int = 1
    """How often it is told."""
    lost: bool = False
    """No event tells of it: only the resync can find it."""
    late: Duration | None = None
    """The event arrives so much later, behind newer ones."""


ACTS = (
    "event",
    "condition",
    "gpus",
    "reboot",
    "replaced",
    "registered_again",
    "gone",
    "human",
    "api_server",
    "functions",
    "cloud",
)
HUMAN_ACTS = ("cordon", "uncordon", "delete_pods_of", "budget", "annotate", "label", "pause",
              "resume")  # fmt: skip
EXPECTATIONS = ("node", "decided", "never", "most_out", "evictions", "ended")


class Document(Section, frozen=True, kw_only=True):
    """The file as it is written."""

    shows: str
    start: datetime
    until: str
    cluster: Cluster
    policy: dict[str, Any] = {}
    """What differs from the default policy."""
    steps: list[Step]
    expect: list[Expect] = []
    """At the end."""


class Timed(msgspec.Struct, frozen=True):
    at: datetime
    step: Step
    line: int
    """Where it stands in the file."""


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """A scenario that has been checked: every node, pool and time in it makes sense."""

    name: str
    file: str
    shows: str
    start: datetime
    end: datetime
    cluster: Cluster
    policy: str = ""
    """A policy document (YAML); empty: the default."""
    steps: tuple[Timed, ...]
    expect: tuple[tuple[Expect, int], ...] = ()
    """What must hold at the end, and where it stands."""

    @property
    def nodes(self) -> dict[str, Pool]:
        return {
            name: pool for key, pool in self.cluster.pools.items() for name in names_of(key, pool)
        }

    @property
    def pool_of_nodes(self) -> dict[str, str]:
        """By node, its pool's name."""
        return {
            name: key for key, pool in self.cluster.pools.items() for name in names_of(key, pool)
        }


def names_of(key: str, pool: Pool) -> list[str]:
    width = max(2, len(str(pool.count)))
    return [f"{key}-{number:0{width}}" for number in range(1, pool.count + 1)]
