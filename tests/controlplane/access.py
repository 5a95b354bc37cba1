"""What a test may ask of any cluster, whether booted here or somebody's throw-away one."""

from __future__ import annotations

import json
import os
import subprocess
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from tests.controlplane.kubeconfig import write_kubeconfig

T = TypeVar("T")

# A rule of a Role, in Kubernetes' own fields: {"apiGroups": [""], "resources": ["nodes"], ...}
PolicyRule = Mapping[str, Sequence[str]]


class KubectlError(Exception):
    """kubectl ended with an error; ``stderr`` has the API server's answer."""

    def __init__(self, arguments: Sequence[str], stderr: str) -> None:
        self.stderr = stderr
        super().__init__(f"kubectl {' '.join(arguments)}: {stderr.strip()}")


def eventually(check: Callable[[], T], what: str, timeout_seconds: float = 30) -> T:
    """The first true answer of ``check``. ``what`` says in the error what never came true."""
    deadline = time.monotonic() + timeout_seconds
    while not (answer := check()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout_seconds:.0f} s: {what}")
        time.sleep(0.1)
    return answer


class Cluster(ABC):
    """Access to a cluster. An identity is a short name for somebody who sends requests."""

    @property
    @abstractmethod
    def url(self) -> str:
        """The API server's address."""

    @abstractmethod
    def kubeconfig(self, identity: str = "admin") -> Path:
        """A kubeconfig file that acts as this identity."""

    @abstractmethod
    def username(self, identity: str) -> str:
        """The identity's name as roles, admission and the audit log see it."""

    @property
    @abstractmethod
    def kubectl_binary(self) -> Path: ...

    @property
    @abstractmethod
    def work_folder(self) -> Path:
        """For kubeconfig files and kubectl's cache; goes away with the cluster's owner."""

    def kubectl(
        self,
        *arguments: str,
        input: str | None = None,  # noqa: A002  the name that subprocess.run gave it
        identity: str = "admin",
        timeout_seconds: float = 60,
    ) -> str:
        """Run kubectl as an identity and return what it printed; raises KubectlError."""
        done = subprocess.run(
            [
                self.kubectl_binary, f"--kubeconfig={self.kubeconfig(identity)}",
                f"--cache-dir={self.work_folder / 'kubectl-cache'}", *arguments,
            ],
            env=os.environ | {"KUBERC": "off"},  # not the user's own defaults
            input=input, capture_output=True, text=True, check=False, timeout=timeout_seconds,
        )  # fmt: skip
        if done.returncode != 0:
            raise KubectlError(arguments, done.stderr)
        return done.stdout

    def get(self, *arguments: str) -> Any:
        """``kubectl get ... -o json``, parsed: ``get("pods", "-n", namespace)["items"]``."""
        return json.loads(self.kubectl("get", *arguments, "-o", "json"))

    def create(self, *manifests: Mapping[str, Any]) -> None:
        """Create objects given as dicts in the shape of their manifests."""
        as_list = {"apiVersion": "v1", "kind": "List", "items": manifests}
        self.kubectl("create", "-f", "-", input=json.dumps(as_list))

    @contextmanager
    def allowed(
        self, identity: str, *rules: PolicyRule, namespace: str | None = None
    ) -> Iterator[None]:
        """Give an identity these rights for a while, in one namespace or (None) everywhere."""
        kind = "Role" if namespace else "ClusterRole"
        name = f"test-{identity}-{uuid.uuid4().hex[:8]}"
        metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
        api = "rbac.authorization.k8s.io"
        subject = {"kind": "User", "apiGroup": api, "name": self.username(identity)}
        self.create(
            {"apiVersion": f"{api}/v1", "kind": kind, "metadata": metadata, "rules": rules},
            {
                "apiVersion": f"{api}/v1", "kind": f"{kind}Binding", "metadata": metadata,
                "roleRef": {"apiGroup": api, "kind": kind, "name": name}, "subjects": [subject],
            },
        )  # fmt: skip
        try:
            # The API server's authorizer reads roles from its own cache, a moment behind.
            eventually(lambda: self._may(identity, rules[-1], namespace), f"rights of {identity}")
            yield
        finally:
            where = [f"--namespace={namespace}"] if namespace else []
            self.kubectl("delete", f"{kind}Binding,{kind}".lower(), name, *where)

    def _may(self, identity: str, rule: PolicyRule, namespace: str | None) -> bool:
        return self.may(
            self.username(identity), rule["verbs"][0], rule["resources"][0],
            group=rule["apiGroups"][0], namespace=namespace or "",
            name=(rule.get("resourceNames") or [""])[0],
        )  # fmt: skip

    def may(
        self,
        user: str,
        verb: str,
        resource: str,
        *,
        group: str = "",
        namespace: str = "",
        name: str = "",
    ) -> bool:
        """Whether the API server lets them; ``resource`` with its subresource, ``pods/eviction``.
        Without a namespace: in all of them."""
        kind, _, subresource = resource.partition("/")
        attributes = {
            "verb": verb, "group": group, "resource": kind, "subresource": subresource,
            "name": name, "namespace": namespace,
        }  # fmt: skip
        review = {
            "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
            "spec": {"user": user, "resourceAttributes": attributes},
        }  # fmt: skip
        answer = self.kubectl("create", "-f", "-", "-o", "json", input=json.dumps(review))
        return bool(json.loads(answer)["status"]["allowed"])

    def service_account_kubeconfig(self, namespace: str, name: str) -> Path:
        """A kubeconfig file that acts as an existing service account, for testing its roles."""
        return write_kubeconfig(
            self.work_folder / f"serviceaccount-{namespace}-{name}.kubeconfig",
            url=self.url,
            ca_certificate=self._ca_certificate(),
            user=f"system:serviceaccount:{namespace}:{name}",
            token=self.kubectl("create", "token", name, f"--namespace={namespace}").strip(),
        )

    @abstractmethod
    def _ca_certificate(self) -> bytes:
        """What signed the API server's certificate, as PEM."""
