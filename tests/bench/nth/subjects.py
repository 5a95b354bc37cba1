"""The two that are measured, each a process of its own that consumes a queue."""

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

import yaml

from functions import cordon
from functions.edge.context import Context, Settings
from functions.gateways.clock import SystemClock
from functions.gateways.kubernetes.client import Cluster
from tests.bench.nth import build
from tests.bench.nth.cloud import ENVIRONMENT, listens
from tests.controlplane.access import eventually
from tests.controlplane.cluster import ControlPlane
from tests.support.crew import transport_to

READY_SECONDS = 60.0
ENDS_SECONDS = 30.0


@dataclass
class Running:
    """What takes messages out of the queue."""

    process: "subprocess.Popen[bytes]"
    log: Path
    acting: "list[Running]" = field(default_factory=list)
    """What acts on the cluster, where that is not the same."""

    def rss_mb(self) -> float:
        """The most that it (or a child of it) has had in memory, in MiB."""
        return max(_peak_kb(pid) for pid in _tree(self.process.pid)) / 1024

    def acting_mb(self) -> float:
        """The same of what acts; of the largest, where there are several."""
        return max((it.rss_mb() for it in self.acting), default=self.rss_mb())

    def cpu_seconds(self) -> float:
        """Of all of them."""
        own = sum(_ticks(pid) for pid in _tree(self.process.pid)) / os.sysconf("SC_CLK_TCK")
        return own + sum(it.cpu_seconds() for it in self.acting)

    def check(self) -> None:
        """Whether it still runs. Raises SystemExit with the end of its log."""
        if (code := self.process.poll()) is not None:
            last = self.log.read_text(errors="replace").splitlines()[-10:]
            raise SystemExit("\n".join([f"it ended with {code}; the end of its log:", *last]))
        for it in self.acting:
            it.check()


def _tree(pid: int) -> list[int]:
    """The process and its children."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(one for child in children for one in _tree(int(child)))]


def _peak_kb(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1])
    raise ValueError(f"/proc/{pid}/status says nothing of VmHWM")


def _ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


class Subject(Protocol):
    user: str
    """Its identity on the control plane."""

    def running(
        self, cluster: ControlPlane, queue: str, namespace: str
    ) -> contextlib.AbstractContextManager[Running]:
        """Started and ready; ended afterwards."""


def settle(cluster: ControlPlane, namespace: str) -> None:
    """``namespace`` with what ours has there where it has run for some minutes: ledgers."""
    cluster.kubectl("create", "namespace", namespace)
    api = Cluster(transport_to(cluster.kubeconfig("admin")))
    cordon.resync(Context(lambda: api, SystemClock(), Settings(namespace=namespace)))


class Ours:
    """``groundcrew consume --in-process``: consumer, functions and their resync in one."""

    user = "groundcrew"

    @contextlib.contextmanager
    def running(self, cluster: ControlPlane, queue: str, namespace: str) -> Iterator[Running]:
        settle(cluster, namespace)
        command = [
            str(Path(sys.executable).with_name("groundcrew")), "consume", "--queue", queue,
            "--in-process", "--foreign", "delete", f"--namespace={namespace}",
            f"--kubeconfig={cluster.kubeconfig(self.user)}",
        ]  # fmt: skip
        given = {"AWS_ENDPOINT_URL": f"http://{urlsplit(queue).netloc}"}
        with running(command, cluster.work_folder / f"{namespace}.log", given, "consuming") as it:
            yield it


class Nth:
    """NTH in queue mode with its defaults. It knows no kubeconfig: it is given what a pod has, in
    a mount namespace of its own."""

    user = "nth"

    def __init__(self, program: Path) -> None:
        self._program = program

    @contextlib.contextmanager
    def running(self, cluster: ControlPlane, queue: str, namespace: str) -> Iterator[Running]:
        folder = cluster.work_folder / namespace
        folder.mkdir()
        token, certificate = _credentials(cluster.kubeconfig(self.user))
        (folder / "token").write_text(token)
        (folder / "ca.crt").write_bytes(certificate)
        server = urlsplit(cluster.url)
        given = {
            "KUBERNETES_SERVICE_HOST": str(server.hostname),
            "KUBERNETES_SERVICE_PORT": str(server.port),
            "NODE_NAME": "elsewhere",
            "POD_NAME": "nth",
            "NAMESPACE": "kube-system",
            "ENABLE_SQS_TERMINATION_DRAINING": "true",
            "QUEUE_URL": queue,
            "AWS_ENDPOINT": f"http://{urlsplit(queue).netloc}",
            "JSON_LOGGING": "true",
        }
        ready = "Started watching for interruption events"
        command = _in_a_pod(self._program, folder)
        with running(command, folder / "nth.log", given, ready) as it:
            yield it


def nth() -> Nth:
    """Raises SystemExit that says what is missing."""
    if shutil.which("unshare") is None:
        raise SystemExit("unshare is not on the PATH (util-linux): NTH cannot be given its token")
    program = build.cached()
    if program is None:
        raise SystemExit(f"NTH is not built: run {build.BUILD_COMMAND}")
    return Nth(program)


def _in_a_pod(program: Path, folder: Path) -> Sequence[str]:
    """``program`` where /var/run/secrets holds the files of ``folder``, and only for itself."""
    there = "/run/secrets/kubernetes.io/serviceaccount"
    script = (
        f"mount -t tmpfs tmpfs /run && mkdir -p {there} && "
        f"cp {shlex.quote(str(folder))}/token {shlex.quote(str(folder))}/ca.crt {there} && "
        f"exec {shlex.quote(str(program))}"
    )
    root = [] if os.geteuid() == 0 else ["--map-root-user"]
    return ["unshare", "--mount", *root, "sh", "-c", script]


def _credentials(kubeconfig: Path) -> tuple[str, bytes]:
    import base64

    found = yaml.safe_load(kubeconfig.read_text())
    token = found["users"][0]["user"]["token"]
    return token, base64.b64decode(found["clusters"][0]["cluster"]["certificate-authority-data"])


@contextlib.contextmanager
def running(
    command: Sequence[str], log: Path, given: Mapping[str, str], ready: str | int
) -> Iterator[Running]:
    """``ready`` is what its log says then, or the port that it listens at."""
    # Nothing of ours or of the user's: both start with the same.
    environment = {"PATH": os.environ["PATH"], "HOME": str(log.parent), **ENVIRONMENT, **given}
    with log.open("wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file, env=environment)
    it = Running(process, log)

    def is_ready() -> bool:
        it.check()
        if isinstance(ready, int):
            return listens(ready)
        return ready in log.read_text(errors="replace")

    try:
        eventually(is_ready, f"{command[0]} is ready", READY_SECONDS)
        yield it
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(ENDS_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
