"""What the names of machines look like: they end up in paths and selectors of requests, so that a
name from outside that is none goes no further."""

import re

NODE = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
"""The name of a Node object (RFC 1123 subdomain, roughly: no part of it is checked by itself)."""

INSTANCE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,126}[A-Za-z0-9_])?")
"""A cloud's ID of a VM: ``i-0123456789abcdef0``, ``aks-pool-12345678-vmss_0``."""

PROVIDER = re.compile(r"[a-z]+://[A-Za-z0-9._/-]{1,500}")
"""``spec.providerID`` as the cloud providers write it."""
