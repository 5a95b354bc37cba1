"""Which cluster is meant, and the way to it."""

import os
from pathlib import Path

from functions.gateways.kubernetes import errors, plain
from functions.gateways.kubernetes.client import Cluster
from functions.gateways.kubernetes.connection import Connection
from functions.gateways.kubernetes.rest import RestTransport

HOST, PORT = "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"


def connect(kubeconfig: str | None = None, context: str | None = None) -> Cluster:
    """The cluster that is meant: ``kubeconfig`` (a file), else $KUBECONFIG, else the one whose
    pod we are, else ``~/.kube/config``. ``context`` chooses in a kubeconfig.

    Raises `errors.NotConfigured` when there is none, naming what was tried. No request is sent.
    """
    return Cluster(transport(kubeconfig, context))


def transport(kubeconfig: str | None = None, context: str | None = None) -> RestTransport:
    """The way to it, as `connect` finds it."""
    in_pod = bool(os.environ.get(HOST))
    at_home = Path("~/.kube/config").expanduser()
    files = kubeconfig or os.environ.get("KUBECONFIG", "")
    if not files and at_home.exists() and (context or not in_pod):
        files = str(at_home)
    if files:
        return RestTransport(lambda: _of_kubeconfig(files, context))
    if in_pod:
        return RestTransport(_of_pod)
    raise errors.NotConfigured(
        "no cluster is configured: no kubeconfig was given, $KUBECONFIG is not set, this is no pod "
        f"of a cluster (${HOST} is not set) and {at_home} does not exist; give a kubeconfig file"
    )


def _of_kubeconfig(files: str, context: str | None) -> Connection:
    if found := plain.of_kubeconfig(files, context):
        return found
    from functions.gateways.kubernetes import official

    return official.of_kubeconfig(files, context)


def _of_pod() -> Connection:
    if found := plain.of_pod(os.environ.get(HOST, ""), os.environ.get(PORT, "")):
        return found
    from functions.gateways.kubernetes import official

    return official.of_pod()
