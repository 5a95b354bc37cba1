"""The ways out: the Kubernetes API now, the clouds beside it."""
