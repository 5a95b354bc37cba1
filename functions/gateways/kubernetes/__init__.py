"""The Kubernetes API: a transport that moves bytes, types of what we read, a client of both."""
