"""A small Kubernetes API server of our own, with the controllers that a drain meets.

In process on simulated time for the replay, over HTTP for function servers and kubectl. What it
answers is held to recordings of a real one; what it does not know it refuses with a clear 4xx.
"""

from infra.local.cluster.embedded import EmbeddedCluster
from infra.local.cluster.transport import EmbeddedTransport

__all__ = ["EmbeddedCluster", "EmbeddedTransport"]
