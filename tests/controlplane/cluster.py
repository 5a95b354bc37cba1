"""A real Kubernetes control plane on loopback: etcd, API server, controllers, scheduler, kwok.

kwok plays the kubelets: nodes become Ready and keep their leases, pods run and take their grace
period to end. Everybody has an identity of their own, as in a real cluster, so that roles are
really checked and the audit log shows who did what.
"""

from __future__ import annotations

import atexit
import base64
import csv
import json
import secrets
import shutil
import ssl
import subprocess
import tempfile
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.error import HTTPError

from tests.controlplane.access import Cluster, eventually
from tests.controlplane.audit import AuditEntry, read_audit_log
from tests.controlplane.build import BUILD_COMMAND, Binaries, cached
from tests.controlplane.kubeconfig import write_kubeconfig
from tests.controlplane.kwok_stages import write_test_stages
from tests.controlplane.ports import free_ports
from tests.controlplane.process import BootError, Process

AUDIT_POLICY = Path(__file__).with_name("audit-policy.yaml")
AUDIT_BARRIER = "/version?audit-barrier="

# Identity: (user name, group). The API server's built-in roles know the two system: names.
# kwok and Karpenter may do everything: only their names matter, in the audit log.
IDENTITIES = {
    "admin": ("admin", "system:masters"),
    "kube-controller-manager": ("system:kube-controller-manager", ""),
    "kube-scheduler": ("system:kube-scheduler", ""),
    "kwok": ("kwok", "system:masters"),
    "karpenter": ("karpenter", "system:masters"),
    "groundcrew": ("groundcrew", ""),
}

BOOT_ATTEMPTS = 3
HEALTHY_TIMEOUT_SECONDS = 90  # boots in a few seconds, but machines that run tests are busy
APISERVER_STOP_TIMEOUT_SECONDS = 90


class NotBuiltError(Exception):
    def __init__(self) -> None:
        super().__init__(f"the control plane is not built: run {BUILD_COMMAND}")


@dataclass(eq=False)
class ControlPlane(Cluster):
    """``with ControlPlane() as cluster: cluster.kubectl("get", "nodes")``.

    folder: logs, kubeconfig files and etcd's data go here; a temporary folder if None.
    extra_users: further identities without any rights, for tests of roles.
    extra_args: by program, added after the default arguments, so that they win:
        ``{"kube-apiserver": ["--feature-gates=GenericWorkload=true"]}``.
    """

    folder: Path | None = None
    extra_users: Sequence[str] = ()
    extra_args: Mapping[str, Sequence[str]] = field(default_factory=dict)
    binaries: Binaries | None = None

    _home: Path = field(init=False, repr=False)
    _programs: Binaries = field(init=False, repr=False)
    _ports: dict[str, int] = field(init=False, repr=False)
    _tokens: dict[str, str] = field(init=False, repr=False)
    _tls: ssl.SSLContext = field(init=False, repr=False)
    _processes: dict[str, Process] = field(init=False, repr=False, default_factory=dict)

    def start(self) -> None:
        """Boot; returns when every program says that it is healthy. Raises BootError."""
        programs = self.binaries or cached()
        if programs is None:
            raise NotBuiltError
        self._programs = programs
        self._home = self.folder or Path(tempfile.mkdtemp(prefix="groundcrew-controlplane-"))
        atexit.register(self.stop)
        for attempt in range(1, BOOT_ATTEMPTS + 1):
            try:
                self._boot()
                return
            except BootError as failed:
                self._kill_all()  # and keep the folder: the error names a log in it
                if attempt == BOOT_ATTEMPTS or not failed.port_was_taken:
                    atexit.unregister(self.stop)
                    raise

    def stop(self) -> None:
        """Kill everything and remove the data. A folder that was given keeps its logs."""
        atexit.unregister(self.stop)
        self._kill_all()
        if self.folder is None:
            shutil.rmtree(self._home, ignore_errors=True)
        else:
            shutil.rmtree(self._home / "etcd", ignore_errors=True)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self._ports['kube-apiserver']}"

    @property
    def kubectl_binary(self) -> Path:
        return self._programs["kubectl"]

    @property
    def work_folder(self) -> Path:
        return self._home

    @property
    def pids(self) -> dict[str, int]:
        """The running programs' process ids, by program."""
        return {program: process.pid for program, process in self._processes.items()}

    def kubeconfig(self, identity: str = "admin") -> Path:
        if identity not in self._tokens:
            known = ", ".join(self._tokens)
            raise KeyError(f"no identity {identity!r} (there are: {known}); use extra_users")
        return self._home / f"{identity}.kubeconfig"

    def username(self, identity: str) -> str:
        return self._users()[identity][0]

    def restart_apiserver(self, kill: bool = True, down_seconds: float = 0) -> None:
        """Stop the API server (SIGKILL, or SIGTERM and wait), stay down, start it again.

        Data and address stay the same; returns when it is ready.
        """
        server = self._processes.pop("kube-apiserver")
        if kill:
            server.kill()
        else:
            server.terminate(APISERVER_STOP_TIMEOUT_SECONDS)
        time.sleep(down_seconds)
        self._launch("kube-apiserver", self._apiserver(), self._is_apiserver_ready)
        self._wait_for(*self._processes)  # the others too must have lived through it

    def stop_kwok(self) -> None:
        """All kubelets die at once: leases stop, pods no longer start and no longer end."""
        self._processes.pop("kwok").kill()

    def start_kwok(self) -> None:
        """The kubelets come back."""
        # A kubelet renews the lease it left; kwok would wait until its predecessor's has run out.
        self.kubectl("delete", "lease", "--all", "-n", "kube-node-lease")
        self._launch("kwok", self._kwok(), self._answers("http", "kwok", "/healthz"))
        self._wait_for("kwok")

    def audit_mark(self) -> int:
        """The place in the audit log after everything that has been answered by now."""
        self._wait_for_audit_log()
        return self._audit_log.stat().st_size

    def audit_since(self, mark: int) -> Iterator[AuditEntry]:
        """What was asked of the API server since a mark. Needs the API server to be up."""
        self._wait_for_audit_log()
        entries = read_audit_log(self._audit_log, mark)
        return (entry for entry in entries if not entry.request_uri.startswith(AUDIT_BARRIER))

    def audit(self) -> Iterator[AuditEntry]:
        """All that was asked of the API server since the boot."""
        return self.audit_since(0)

    @property
    def _audit_log(self) -> Path:
        return self._home / "audit.jsonl"

    def _wait_for_audit_log(self) -> None:
        """The log lags behind the answers: ask for something recognisable until it is there."""
        offset = self._audit_log.stat().st_size
        barrier = f"{AUDIT_BARRIER}{uuid.uuid4()}"
        self._get(f"{self.url}{barrier}")
        eventually(
            lambda: any(e.request_uri == barrier for e in read_audit_log(self._audit_log, offset)),
            "the audit log shows the request just made",
        )

    def _boot(self) -> None:
        self._remove_leftovers()  # of an attempt that found a port taken
        servers = ["etcd", "etcd-peer", "kube-apiserver", "kube-controller-manager",
                   "kube-scheduler", "kwok"]  # fmt: skip
        self._ports = dict(zip(servers, free_ports(len(servers)), strict=True))
        self._make_certificate()
        self._make_identities()
        self._write_scheduler_config()
        write_test_stages(self._programs.kwok_stages, self._home / "kwok-stages.yaml")
        self._launch("etcd", self._etcd(), self._answers("http", "etcd", "/health"))
        self._launch("kube-apiserver", self._apiserver(), self._is_apiserver_ready)
        self._wait_for("etcd", "kube-apiserver")
        manager, scheduler = "kube-controller-manager", "kube-scheduler"
        self._launch(manager, self._controllers(), self._are_all_controllers_made)
        self._launch(scheduler, self._scheduler(), self._answers("https", scheduler, "/readyz"))
        self._launch("kwok", self._kwok(), self._answers("http", "kwok", "/healthz"))
        self._wait_for(manager, scheduler, "kwok")

    def _remove_leftovers(self) -> None:
        shutil.rmtree(self._home / "etcd", ignore_errors=True)
        for log in (self._audit_log, *self._home.glob("*.log")):
            log.unlink(missing_ok=True)

    def _launch(self, program: str, arguments: list[str], healthy: Callable[[], bool]) -> None:
        extra = self.extra_args.get(program, ())
        command = [str(self._programs[program]), *arguments, *extra]
        self._processes[program] = Process(command, folder=self._home, healthy=healthy)

    def _wait_for(self, *programs: str) -> None:
        for program in programs:
            self._processes[program].wait_healthy(HEALTHY_TIMEOUT_SECONDS)

    def _kill_all(self) -> None:
        # SIGKILL, clients first: nothing needs saving, and a polite API server takes a minute.
        for program in reversed(list(self._processes)):
            self._processes.pop(program).kill()

    def _users(self) -> dict[str, tuple[str, str]]:
        return IDENTITIES | {user: (user, "") for user in self.extra_users}

    def _make_certificate(self) -> None:
        """One self-signed certificate for all servers; clients trust it and nothing else.

        Its key signs service account tokens too: nothing here outlives the test.
        """
        try:
            subprocess.run(
                ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                 "ec_paramgen_curve:prime256v1", "-nodes", "-days", "365", "-subj", "/CN=127.0.0.1",
                 "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost",
                 "-keyout", self._key, "-out", self._certificate],
                check=True, capture_output=True, text=True,
            )  # fmt: skip
        except FileNotFoundError:
            raise RuntimeError("openssl is not on the PATH: install it") from None
        self._tls = ssl.create_default_context(cafile=self._certificate)

    @property
    def _certificate(self) -> Path:
        return self._home / "server.crt"

    @property
    def _key(self) -> Path:
        return self._home / "server.key"

    @property
    def certificate_files(self) -> tuple[Path, Path]:
        """Certificate and key for another server on 127.0.0.1, a webhook's: see `ca_bundle`."""
        return self._certificate, self._key

    def ca_bundle(self) -> str:
        """What the API server needs to trust such a server."""
        return base64.b64encode(self._ca_certificate()).decode()

    def _ca_certificate(self) -> bytes:
        return self._certificate.read_bytes()

    def _make_identities(self) -> None:
        self._tokens = {identity: secrets.token_urlsafe() for identity in self._users()}
        with (self._home / "tokens.csv").open("w", newline="") as file:
            for identity, (user, group) in self._users().items():
                csv.writer(file).writerow([self._tokens[identity], user, user, group])
        for identity, token in self._tokens.items():
            write_kubeconfig(
                self._home / f"{identity}.kubeconfig", url=self.url, user=identity, token=token,
                ca_certificate=self._ca_certificate(),
            )  # fmt: skip

    def _write_scheduler_config(self) -> None:
        connection = {"kubeconfig": str(self.kubeconfig("kube-scheduler")),
                      "qps": 1000, "burst": 2000}  # fmt: skip
        (self._home / "scheduler.json").write_text(
            json.dumps({
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "kind": "KubeSchedulerConfiguration",
                "leaderElection": {"leaderElect": False},
                "clientConnection": connection,
            })
        )  # fmt: skip

    def _etcd(self) -> list[str]:
        client = f"http://127.0.0.1:{self._ports['etcd']}"
        peer = f"http://127.0.0.1:{self._ports['etcd-peer']}"
        return [
            f"--data-dir={self._home / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--log-level=warn",
            "--unsafe-no-fsync",  # the data need not survive the machine
        ]

    def _apiserver(self) -> list[str]:
        return [
            f"--etcd-servers=http://127.0.0.1:{self._ports['etcd']}",
            *self._serving("kube-apiserver"),
            # No route to the outside is needed, and nobody looks up the `kubernetes` Service.
            "--advertise-address=127.0.0.1",
            "--endpoint-reconciler-type=none",
            "--service-cluster-ip-range=10.96.0.0/16",
            f"--token-auth-file={self._home / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self._certificate}",
            f"--service-account-signing-key-file={self._key}",
            # Else no pod could be made before its namespace has a default service account.
            "--disable-admission-plugins=ServiceAccount",
            f"--audit-policy-file={AUDIT_POLICY}",
            f"--audit-log-path={self._audit_log}",
            # On SIGTERM open watches end after a second; they would be waited for for a minute.
            "--shutdown-watch-termination-grace-period=1s",
            "--audit-log-maxsize=10000",  # megabytes; a rotation would make marks wrong
        ]

    def _controllers(self) -> list[str]:
        return [
            f"--kubeconfig={self.kubeconfig('kube-controller-manager')}",
            *self._serving("kube-controller-manager"),
            # Each controller under its own name: pods of a ReplicaSet are not made by "admin".
            "--use-service-account-credentials=true",
            f"--service-account-private-key-file={self._key}",
            "--leader-elect=false",
            "--kube-api-qps=200",
            "--kube-api-burst=400",
            # Dead-kubelet tests stop kwok; the taints they look at must be their own.
            "--node-monitor-grace-period=24h",
        ]

    def _scheduler(self) -> list[str]:
        return [f"--config={self._home / 'scheduler.json'}", *self._serving("kube-scheduler")]

    def _kwok(self) -> list[str]:
        return [
            f"--kubeconfig={self.kubeconfig('kwok')}",
            f"--config={self._home / 'kwok-stages.yaml'}",
            f"--server-address=127.0.0.1:{self._ports['kwok']}",
            "--manage-all-nodes=true",
            "--node-lease-duration-seconds=40",
        ]

    def _serving(self, server: str) -> list[str]:
        return [
            "--bind-address=127.0.0.1",
            f"--secure-port={self._ports[server]}",
            f"--tls-cert-file={self._certificate}",
            f"--tls-private-key-file={self._key}",
        ]

    def _answers(self, scheme: str, server: str, path: str) -> Callable[[], bool]:
        return lambda: self._is_ok(f"{scheme}://127.0.0.1:{self._ports[server]}{path}")

    def _is_apiserver_ready(self) -> bool:
        return self._is_ok(f"{self.url}/readyz")

    def _are_all_controllers_made(self) -> bool:
        """Each controller then has a line in the answer; before, it is healthy without any.

        While it makes them the controller manager ends at the first request that is refused,
        which happens when the API server is restarted: so a boot is not over before.
        """
        url = f"https://127.0.0.1:{self._ports['kube-controller-manager']}/healthz?verbose"
        return self._is_ok(url, containing=b"disruption-controller ok")

    def _is_ok(self, url: str, containing: bytes = b"") -> bool:
        try:
            return containing in self._get(url)
        except HTTPError as not_yet:
            not_yet.close()
            return False
        except OSError:  # not listening yet
            return False

    def _get(self, url: str) -> bytes:
        # No proxy, whatever the environment says: everything is on loopback.
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=self._tls)
        )
        with opener.open(url, timeout=5) as answer:
            body: bytes = answer.read()
        return body
