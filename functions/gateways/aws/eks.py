"""The way to an EKS cluster from outside it: its address, and a token that says who we are.

https://docs.aws.amazon.com/eks/latest/userguide/cluster-auth.html,
https://github.com/kubernetes-sigs/aws-iam-authenticator (how the token is made and checked)

The token is a presigned call of STS GetCallerIdentity, which the cluster makes in our place to
learn our role. The cluster's name is signed into it, so that it opens that cluster alone. It is
taken for 15 minutes; it is kept for as long in the process, as a credential and never as state.
"""

import base64
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from functions.gateways.aws import calls
from functions.gateways.clock import Clock, SystemClock
from functions.gateways.kubernetes import connection, official, plain
from functions.gateways.kubernetes.client import Cluster
from functions.gateways.kubernetes.connection import Connection
from functions.gateways.kubernetes.rest import RestTransport

LIFE = timedelta(minutes=15)
RENEWED_BEFORE = timedelta(minutes=2)
PRESIGNED_SECONDS = 60
"""What STS itself allows between signature and call, beyond the age that the cluster checks."""
DESCRIBE_SECONDS = 10.0
_PREFIX = "k8s-aws-v1."


@dataclass(frozen=True)
class Address:
    endpoint: str
    authority: bytes
    """Certificates in PEM."""


def address(clients: calls.Clients, region: str, name: str, clock: Clock) -> Address:
    """Where the cluster is. Raises `errors.AwsError`."""
    said = calls.retrying(
        clock,
        clock.monotonic() + DESCRIBE_SECONDS,
        calls.REPEATABLE,
        lambda: calls.send(clients, "eks", region, "DescribeCluster", name=name),
    )
    cluster = said["cluster"]
    authority = base64.b64decode(cluster["certificateAuthority"]["data"])
    return Address(cluster["endpoint"], authority)


def token(credentials: Any, region: str, name: str) -> str:
    """A token for cluster ``name``, signed with botocore's ``credentials``."""
    from botocore.auth import SigV4QueryAuth
    from botocore.awsrequest import AWSRequest

    suffix = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    request = AWSRequest(
        method="GET",
        url=f"https://sts.{region}.{suffix}/?Action=GetCallerIdentity&Version=2011-06-15",
        headers={"x-k8s-aws-id": name},
    )
    SigV4QueryAuth(credentials, "sts", region, expires=PRESIGNED_SECONDS).add_auth(request)
    return _PREFIX + base64.urlsafe_b64encode(request.url.encode()).rstrip(b"=").decode()


class Tokens:
    """The token in use; a new one some time before it ends."""

    def __init__(self, clients: calls.Clients, region: str, name: str, clock: Clock) -> None:
        self._clients, self._region, self._name, self._clock = clients, region, name, clock
        self._made: list[tuple[str, datetime]] = []

    def current(self) -> str:
        now = self._clock.now()
        if not self._made or now >= self._made[0][1] - RENEWED_BEFORE:
            credentials = self._clients.session.get_credentials()
            if credentials is None:
                from functions.gateways.aws.errors import NotConfigured

                raise NotConfigured("no AWS credentials to sign a token for EKS with")
            frozen = credentials.get_frozen_credentials()
            self._made = [(token(frozen, self._region, self._name), now + LIFE)]
        return self._made[0][0]


def connect(region: str, name: str, clock: Clock | None = None) -> Cluster:
    """Cluster ``name`` in ``region``. Raises `errors.AwsError`."""
    clock = clock or SystemClock()
    clients = calls.Clients()
    where = address(clients, region, name, clock)
    tokens = Tokens(clients, region, name, clock)
    return Cluster(RestTransport(lambda: way(where, tokens.current)))


def way(where: Address, current: Callable[[], str]) -> Connection:
    """Connections to ``where``, on which each request carries the ``current`` token."""

    def authorization() -> str:
        return f"Bearer {current()}"

    authority = where.authority.decode()
    if not plain.proxies():
        return connection.to(
            where.endpoint, authorization, cert_reqs="CERT_REQUIRED", ca_cert_data=authority
        )

    def load(configuration: Any) -> None:
        configuration.host = where.endpoint
        configuration.ca_cert_data = authority

    return replace(official.loaded(load), authorization=authorization)
