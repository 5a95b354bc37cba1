"""Somebody's throw-away cluster, given by a kubeconfig file in GROUNDCREW_TEST_KUBECONFIG.

Only for clusters that may be damaged: tests create and delete nodes and cluster roles in it.
"""

from __future__ import annotations

import base64
import shutil
import uuid
from pathlib import Path

from tests.controlplane.access import Cluster
from tests.controlplane.build import BUILD_COMMAND, cached


class ExternalCluster(Cluster):
    def __init__(self, admin_kubeconfig: Path, work_folder: Path) -> None:
        self._admin_kubeconfig = admin_kubeconfig
        self._work_folder = work_folder
        self._kubeconfigs = {"admin": admin_kubeconfig}
        # Identities other than admin are service accounts in here.
        self._namespace = f"test-identities-{uuid.uuid4().hex[:10]}"

    @property
    def url(self) -> str:
        return self._cluster_field("server")

    @property
    def kubectl_binary(self) -> Path:
        if binaries := cached():
            return binaries["kubectl"]
        if installed := shutil.which("kubectl"):
            return Path(installed)
        raise FileNotFoundError(f"kubectl is not on the PATH: install it, or run {BUILD_COMMAND}")

    @property
    def work_folder(self) -> Path:
        return self._work_folder

    def kubeconfig(self, identity: str = "admin") -> Path:
        if identity not in self._kubeconfigs:
            if len(self._kubeconfigs) == 1:
                self.kubectl("create", "namespace", self._namespace)
            self.kubectl("create", "serviceaccount", identity, "-n", self._namespace)
            self._kubeconfigs[identity] = self.service_account_kubeconfig(self._namespace, identity)
        return self._kubeconfigs[identity]

    def username(self, identity: str) -> str:
        if identity == "admin":
            return self.kubectl("auth", "whoami", "-o", "jsonpath={.status.userInfo.username}")
        return f"system:serviceaccount:{self._namespace}:{identity}"

    def close(self) -> None:
        """Remove what the identities left in the cluster."""
        if len(self._kubeconfigs) > 1:
            self.kubectl("delete", "namespace", self._namespace, "--wait=false")

    def _ca_certificate(self) -> bytes:
        return base64.b64decode(self._cluster_field("certificate-authority-data"))

    def _cluster_field(self, field: str) -> str:
        path = f"jsonpath={{.clusters[0].cluster.{field}}}"
        return self.kubectl("config", "view", "--minify", "--flatten", "--raw", "-o", path)
