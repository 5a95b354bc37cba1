"""Configurations as the official client reads them: whatever a kubeconfig may hold.

What is taken from it is what is hard to do well: exec plugins and token refresh, auth providers,
files that are merged, proxies. Its generated API classes and models are left alone: they cost
seconds to load, and to decode a large list. What is `plain` needs none of it.
"""

from collections.abc import Callable
from typing import Any

from functions.gateways.kubernetes import errors
from functions.gateways.kubernetes.connection import CONNECTIONS, Connection

_MALFORMED = (ValueError, TypeError, AttributeError, KeyError)
"""What the official loader raises for a kubeconfig that is YAML and no kubeconfig."""


def of_kubeconfig(files: str, context: str | None) -> Connection:
    """``files`` as $KUBECONFIG has them. Raises `errors.NotConfigured`."""
    from kubernetes.config import kube_config

    from_file: Any = kube_config.load_kube_config

    def load(configuration: Any) -> None:
        where = f"{files}, context {context}" if context else files
        _load(where, lambda: from_file(files, context, client_configuration=configuration))

    return loaded(load, lambda: _user(files, context))


def of_pod() -> Connection:
    """As the service account of the pod that we are. Raises `errors.NotConfigured`."""
    from kubernetes.config import incluster_config

    from_pod: Any = incluster_config.load_incluster_config

    def load(configuration: Any) -> None:
        where = "the service account of this pod"
        _load(where, lambda: from_pod(client_configuration=configuration))

    return loaded(load)


def loaded(load: Callable[[Any], None], user: Callable[[], str] = str) -> Connection:
    """``load`` fills a fresh ``kubernetes.client.Configuration``."""
    from kubernetes.client.configuration import Configuration
    from kubernetes.client.rest import RESTClientObject
    from kubernetes.config import ConfigException

    configuration = Configuration(connection_pool_maxsize=CONNECTIONS)
    # A watch is silent for minutes: an idle balancer or a lost peer would go unnoticed.
    configuration.keep_alive = True
    load(configuration)

    def authorization() -> str:
        try:
            # The hook behind this reads an expired token anew, and may run an exec plugin.
            return configuration.get_api_key_with_prefix("BearerToken") or ""
        except ConfigException as problem:
            raise OSError(f"no token: {problem}") from problem

    pool = RESTClientObject(configuration).pool_manager
    return Connection(configuration.host, pool, authorization, user)


def _load(where: str, load: Callable[[], None]) -> None:
    import yaml
    from kubernetes.config import ConfigException

    try:
        load()
    except (ConfigException, OSError, yaml.YAMLError, *_MALFORMED) as problem:
        raise errors.NotConfigured(f"{where}: {problem}") from problem


def _user(files: str, context: str | None) -> str:
    """What the file calls the user of that context; empty where it names none."""
    from kubernetes.config import ConfigException, list_kube_config_contexts

    try:
        contexts, chosen = list_kube_config_contexts(files)  # type: ignore[no-untyped-call]
        if context:
            chosen = next(c for c in contexts if c["name"] == context)
        return str(chosen["context"].get("user", ""))
    except (ConfigException, StopIteration):
        return ""
