from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from functions.gateways.kubernetes.client import Cluster
from infra.local.cluster import EmbeddedCluster, EmbeddedTransport


class SetClock:
    """A clock that stands still until it is told to go on."""

    def __init__(self) -> None:
        self.time = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)

    def now(self) -> datetime:
        return self.time

    def forward(self, **amount: float) -> None:
        self.time += timedelta(**amount)


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
def cluster(clock: SetClock) -> EmbeddedCluster:
    return EmbeddedCluster(clock)


@pytest.fixture
def client(cluster: EmbeddedCluster) -> Cluster:
    return Cluster(EmbeddedTransport(cluster))
