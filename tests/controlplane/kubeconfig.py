"""Writes kubeconfig files, as JSON: that is YAML too, for kubectl and for the Python client."""

from __future__ import annotations

import base64
import json
from pathlib import Path


def write_kubeconfig(file: Path, *, url: str, ca_certificate: bytes, user: str, token: str) -> Path:
    ca_data = base64.b64encode(ca_certificate).decode()
    cluster = {"server": url, "certificate-authority-data": ca_data}
    file.write_text(
        json.dumps({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": user, "user": {"token": token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": user}}],
            "current-context": "test",
        }, indent=2)
    )  # fmt: skip
    file.chmod(0o600)
    return file
