"""A validating webhook whose answers a test decides: what stands in the way of a drain in the field
is often one of somebody else's."""

import json
import ssl
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.controlplane.access import eventually
from tests.controlplane.cluster import ControlPlane

Answer = Callable[[Any], tuple[int, str] | None]
"""The AdmissionRequest -> a code and a message to deny with, or None to allow. A code of 0 breaks
the webhook itself, which the API server calls an internal error; so does one of -1, which hangs
up."""


class Webhook:
    """``with Webhook(cluster, "pods/eviction", namespace) as hook: hook.answer = ...``"""

    def __init__(self, cluster: ControlPlane, resource: str, where: str) -> None:
        self._cluster = cluster
        self._resource = resource
        self._where = where
        """The namespace of the pods, or the name of the node, that it is asked about."""
        self.answer: Answer = lambda _: None
        self.asked: list[Any] = []
        self._name = f"test-{where}"
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                request = json.loads(body)["request"]
                hook.asked.append(request)
                said = hook.answer(request)
                if said is not None and said[0] == -1:
                    self.close_connection = True
                    return
                if said is not None and said[0] == 0:
                    self.send_error(500, said[1])
                    return
                response: dict[str, Any] = {"uid": request["uid"], "allowed": said is None}
                if said is not None:
                    response["status"] = {"code": said[0], "message": said[1]}
                review = {
                    "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
                    "response": response,
                }  # fmt: skip
                text = json.dumps(review).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*cluster.certificate_files)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def ready(self, probe: Callable[[], object]) -> None:
        """Waits until the API server asks it: ``probe`` is a dry run of what it is asked about."""

        def asks() -> bool:
            probe()
            return bool(self.asked)

        eventually(asks, "the API server asks the webhook")
        self.asked.clear()

    def __enter__(self) -> "Webhook":
        self._thread.start()
        names = f"object.metadata.name == '{self._where}'"
        if self._resource != "nodes":
            names = f"request.namespace == '{self._where}'"
        self._cluster.create({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": self._name},
            "webhooks": [{
                "name": "drain.groundcrew.test",
                "clientConfig": {
                    "url": f"https://127.0.0.1:{self._server.server_address[1]}/",
                    "caBundle": self._cluster.ca_bundle(),
                },
                "rules": [{
                    "apiGroups": [""], "apiVersions": ["v1"], "resources": [self._resource],
                    "operations": ["CREATE", "UPDATE"],
                }],
                "matchConditions": [
                    {"name": "ours", "expression": names},
                    {"name": "asked", "expression": "request.userInfo.username != 'kwok'"},
                    {"name": "people", "expression":
                     "!request.userInfo.username.startsWith('system:')"},
                ],
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
                "failurePolicy": "Fail",
                "timeoutSeconds": 5,
            }],
        })  # fmt: skip
        return self

    def __exit__(self, *_: object) -> None:
        kind = "validatingwebhookconfiguration"
        self._cluster.kubectl("delete", kind, self._name, "--ignore-not-found")
        self._server.shutdown()
        self._server.server_close()
