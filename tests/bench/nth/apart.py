"""Ours as Knative runs it: the consumer, cordon and drain are processes of their own, and what
stands between them (ingress, triggers, clocks) is played by this one."""

import contextlib
import sys
import threading
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

from events import cloudevent
from infra.local import manifests
from infra.local.broker import Broker, Call, post
from infra.local.clock import Ticks
from tests.bench.nth.subjects import Running, running, settle
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.ports import free_ports

FUNCTIONS = ("cordon", "drain")
MAIN = Path(__file__).parents[3] / "main.py"
BIN = Path(sys.executable).parent


class Apart:
    user = "groundcrew"

    @contextlib.contextmanager
    def running(self, cluster: ControlPlane, queue: str, namespace: str) -> Iterator[Running]:
        settle(cluster, namespace)
        folder = cluster.work_folder
        with contextlib.ExitStack() as stack:
            urls, acting = {}, []
            for name, port in zip(FUNCTIONS, free_ports(len(FUNCTIONS)), strict=True):
                given = {
                    **_environment(name), "FUNCTION_SOURCE": str(MAIN), "PORT": str(port),
                    "HOST": "127.0.0.1", "GROUNDCREW_NAMESPACE": namespace,
                    "KUBECONFIG": str(cluster.kubeconfig(self.user)),
                }  # fmt: skip
                log = folder / f"{namespace}-{name}.log"
                command = [str(BIN / "functions-framework")]
                acting.append(stack.enter_context(running(command, log, given, port)))
                urls[name] = f"http://127.0.0.1:{port}/"
            ingress = stack.enter_context(_ingress(urls))
            command = [
                str(BIN / "groundcrew"), "consume", "--queue", queue, "--sink", ingress,
                f"--namespace={namespace}",
            ]  # fmt: skip
            given = {"AWS_ENDPOINT_URL": f"http://{urlsplit(queue).netloc}"}
            log = folder / f"{namespace}.log"
            it = stack.enter_context(running(command, log, given, "consuming"))
            it.acting = acting
            yield it


@contextlib.contextmanager
def _ingress(urls: Mapping[str, str]) -> Iterator[str]:
    """A broker whose triggers post to ``urls``, with the clocks that wake them. As Knative's with
    an in-memory channel it answers when all that follows from the event has happened, and 500 when
    a trigger could not be served."""
    broker = Broker({name: _at(url, name) for name, url in urls.items()})

    class Ingress(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            [event] = cloudevent.parse(dict(self.headers.items()), body)
            failed = any(delivery.dead for delivery in broker.publish(event))
            self.send_response(500 if failed else 202)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Ingress)
    over = threading.Event()

    def tick() -> None:
        ticks, last = Ticks(), datetime.now(UTC)
        while not over.wait(0.2):
            now = datetime.now(UTC)
            for due in ticks.due(last, now):
                threading.Thread(target=broker.publish, args=(due.event,), daemon=True).start()
            last = now

    threads = [threading.Thread(target=run, daemon=True) for run in (server.serve_forever, tick)]
    for thread in threads:
        thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        over.set()
        server.shutdown()
        for thread in threads:
            thread.join(10.0)


def _environment(name: str) -> dict[str, str]:
    """What infra/knative/functions.yaml gives the function, as far as it is no reference."""
    (service,) = (
        body for _, body in manifests.documents()
        if body["kind"] == "Service" and body["metadata"]["name"] == name
    )  # fmt: skip
    (container,) = service["spec"]["template"]["spec"]["containers"]
    return {one["name"]: one["value"] for one in container["env"] if "value" in one}


def _at(url: str, name: str) -> Call:
    trigger = next(one for one in manifests.triggers() if one.subscriber == name)
    return lambda events: post({name: url}, trigger, events[0])
