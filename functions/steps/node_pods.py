"""The pods of one node in one call: as listed and watched, and what was asked and answered."""

from dataclasses import dataclass, field

from functions.gateways.kubernetes import errors, types
from functions.rules.drain_plan import Pod, Step, Verdict
from functions.steps import eviction_answers, pods
from functions.steps.drain_call import pause
from functions.steps.eviction_answers import Meaning, Said
from functions.steps.pod_feed import Answer


@dataclass
class NodePods:
    returned: dict[str, int]
    """By controller UID: how many of its pods came back during the drain."""
    found: dict[str, Pod] = field(default_factory=dict)
    """By UID."""
    listed: bool = False
    fresh: bool = False
    """Whether they are what a list of a cordoned node and the watch from there have shown, in the
    server's own order: with none left, the node was empty at the version of the last change. What
    an answer alone has told (the pod is gone) has no place in that order."""
    flying: dict[str, Step] = field(default_factory=dict)
    """Asked, and not answered yet."""
    asked: set[str] = field(default_factory=set)
    said: dict[str, Said] = field(default_factory=dict)
    """The last refusal of each pod."""
    again: dict[str, float] = field(default_factory=dict)
    """When a refused pod may be asked again."""
    evicted: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    may_return: bool = False
    """A pod was evicted whose controller may put a new one here, cordon or not."""
    went: int = 0
    arrived: int = 0
    _tries: dict[str, int] = field(default_factory=dict)
    _evicted_owners: set[str] = field(default_factory=set)

    def take_list(self, listed: types.Page[types.Pod]) -> None:
        found = {p.uid: p for p in map(pods.pod, listed.items or ())}
        for uid in self.found.keys() - found.keys():
            self.gone(uid)
        for uid in found.keys() - self.found.keys() if self.listed else ():
            self._came(found[uid])
        self.found, self.listed, self.fresh = found, True, True

    def take_change(self, event: types.WatchEvent[types.Pod]) -> None:
        pod = pods.pod(event.object)
        if event.type == "DELETED":
            self.gone(pod.uid)
            return
        if pod.uid not in self.found:
            self._came(pod)
        self.found[pod.uid] = pod

    def take_answer(self, answer: Answer, now: float) -> tuple[Step, Said]:
        """Raises what is no refusal of that pod."""
        step = self.flying.pop(answer.uid)
        problem = answer.problem
        if problem is not None and not isinstance(problem, errors.KubernetesError):
            raise problem
        said = self.said[answer.uid] = eviction_answers.read(problem)
        match said.meaning:
            case Meaning.ACCEPTED:
                self._accepted(step)
            case Meaning.ENDING:
                self.asked.add(answer.uid)
            case Meaning.GONE:
                self.fresh = self.fresh and answer.uid not in self.found
                self.gone(answer.uid)
            case Meaning.BUDGET if step.budgets:
                pass  # the budget says when
            case Meaning.BUDGET | Meaning.LATER:
                tries = self._tries[answer.uid] = self._tries.get(answer.uid, 0) + 1
                self.again[answer.uid] = now + pause(tries, answer.uid, said.after_seconds)
        return step, said

    def gone(self, uid: str) -> None:
        if self.found.pop(uid, None) is not None:
            self.went += 1

    def any_leaves(self) -> bool:
        return any(pod.gone_by or uid in self.asked for uid, pod in self.found.items())

    @property
    def refused(self) -> bool:
        """Whether some pod was not let go."""
        let_go = (Meaning.ACCEPTED, Meaning.GONE, Meaning.ENDING)
        return any(said.meaning not in let_go for said in self.said.values())

    def never(self, step: Step) -> bool:
        """Refused for good. A deletion at a deadline is another question than an eviction."""
        said = self.said.get(step.pod.uid)
        return step.verdict is Verdict.EVICT and said is not None and said.meaning is Meaning.NEVER

    def _accepted(self, step: Step) -> None:
        self.asked.add(step.pod.uid)
        self.again.pop(step.pod.uid, None)
        (self.deleted if step.verdict is Verdict.DELETE else self.evicted).append(step.pod.key)
        self.may_return |= step.pod.owner is not None and step.pod.tolerates_cordon
        if step.pod.owner:
            self._evicted_owners.add(step.pod.owner.uid)

    def _came(self, pod: Pod) -> None:
        """A pod came to the node although it is cordoned, or because it is no longer."""
        self.arrived += 1
        if pod.owner and pod.owner.uid in self._evicted_owners:
            self.returned[pod.owner.uid] = self.returned.get(pod.owner.uid, 0) + 1
            self.may_return = True
