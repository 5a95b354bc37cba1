"""What a report knows of one play: plain data, the same for the same scenario and policy.

It becomes the page's JSON, so names are short where they are repeated a thousand times. Times
(``t``, ``a``, ``b``) are milliseconds since the start of the scenario. Texts come from outside
(messages of agents, names of nodes): whoever shows them must not read them as markup.
"""

import msgspec


class Struct(msgspec.Struct, frozen=True, omit_defaults=True):
    pass


class State(Struct, frozen=True, kw_only=True):
    """A node from ``a`` until its next state."""

    a: int
    s: str
    """Key of `node_state.STATES`."""
    why: str = ""
    """Checks of the incidents that are open meanwhile."""


class Incident(Struct, frozen=True, kw_only=True):
    key: str
    severity: str
    a: int
    b: int | None = None
    """When it was closed or dismissed; None: open at the end."""
    end: str = ""
    """``closed`` or ``dismissed``, and why."""
    evidence: str = ""


class Clock(Struct, frozen=True, kw_only=True):
    """Something that runs out: a deadline, a window, a waiting time."""

    kind: str
    """``deadline`` (when the provider acts), ``window`` (before it: no new work, then empty),
    ``wait`` (how long a check must hold), ``quiet`` (how long a recovery must last),
    ``warning`` (until when a gang may stay), ``override`` (how long a
    dismissed check keeps quiet)."""
    a: int
    b: int
    due: int | None = None
    """When it would have run out, where it was over before, or runs out after the scenario."""
    text: str


class Node(Struct, frozen=True, kw_only=True):
    name: str
    pool: str
    team: str = ""
    """That it was last of; empty: none."""
    states: tuple[State, ...] = ()
    incidents: tuple[Incident, ...] = ()
    clocks: tuple[Clock, ...] = ()
    heard: tuple[tuple[int, int], ...] = ()
    """Events about it that needed nothing: when (the beginning of a bin), and how many."""
    pods: int = 0
    """How many were evicted from it."""
    left_out: int = 0
    """Marks of it that are not among the run's: there were too many."""


class Call(Struct, frozen=True, kw_only=True):
    """One call of a function: the event that woke it and what it asked of the API server."""

    f: str
    type: str
    id: str
    source: str
    subject: str = ""
    requests: tuple[tuple[str, int], ...] = ()


class Mark(Struct, frozen=True, kw_only=True):
    """Something at one moment of one node: a decision, or what happened to the node."""

    n: int
    """Place of the node in `Run.nodes`."""
    t: int
    k: str
    """An action of `functions.rules.decision`; of what happened, a word of `history` (``said``,
    ``reboot``) or of `recorder` (``evicted``). The page's KINDS has a shape for each."""
    text: str
    f: str = ""
    """The function that decided; empty: it happened."""
    incident: str = ""
    severity: str = ""
    evidence: str = ""
    blocked: tuple[str, ...] = ()
    again: int | None = None
    shadow: bool = False
    call: int | None = None
    """Place in `Run.calls`."""


class Said(Struct, frozen=True, kw_only=True):
    """The scenario's own words, or trouble."""

    t: int
    text: str
    line: int = 0
    bad: bool = False


class Check(Struct, frozen=True, kw_only=True):
    t: int
    ok: bool
    expected: str
    because: str = ""
    seen: str = ""
    line: int = 0


class Band(Struct, frozen=True, kw_only=True):
    """A time during which a circuit breaker was open, all was paused, or nobody answered."""

    kind: str
    """``breaker``, ``pause`` or ``away``."""
    a: int
    b: int
    text: str
    pool: str = ""
    """Empty: the whole cluster."""


class Out(Struct, frozen=True, kw_only=True):
    """How many nodes are out of service from ``t`` on."""

    t: int
    ours: int
    others: int = 0


class Group(Struct, frozen=True, kw_only=True):
    """The cluster (no name), one of its pools, or the nodes of one team."""

    name: str = ""
    kind: str = ""
    """Its instance type."""
    size: int
    budget: int | None = None
    """None: there is none for nodes of a team."""
    out: tuple[Out, ...] = ()


class Run(Struct, frozen=True, kw_only=True):
    name: str
    recorded: bool = False
    """Played was recorded history, and no scenario."""
    shows: str
    about: str
    start: str
    """RFC 3339."""
    length: int
    """Milliseconds."""
    ok: bool
    verdict: str
    failures: tuple[str, ...] = ()
    summary: tuple[tuple[str, str], ...] = ()
    cluster: Group
    pools: tuple[Group, ...]
    teams: tuple[Group, ...] = ()
    """Where nodes say which team they are of; by name."""
    nodes: tuple[Node, ...]
    marks: tuple[Mark, ...]
    calls: tuple[Call, ...]
    story: tuple[Said, ...]
    checks: tuple[Check, ...]
    bands: tuple[Band, ...]
    heard: tuple[int, ...]
    """Events that a function heard, in `BINS` parts of the time."""


BINS = 240
