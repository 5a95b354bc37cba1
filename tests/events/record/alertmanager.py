"""Records what a real Alertmanager posts about alerts of a real Prometheus.

    apt-get install prometheus prometheus-alertmanager
    python -m tests.events.record.alertmanager [--into FOLDER]

An exporter of our own serves series as dcgm-exporter and kube-state-metrics name them, first sick,
then well, then not at all; Prometheus scrapes it as its Kubernetes discovery would set it up
(the exporter's pod as target labels, so that its own become ``exported_...``), rules fire, and
Alertmanager posts to a sink here. Everything listens on the loopback. Takes about a minute.

Writes ``prometheus_<alert>_<what>.json`` and how each is understood beside it: times are new each
time, so look at the difference before it is committed.
"""

import argparse
import json
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec

from events import recording

FOLDER = Path(recording.__file__).parent / "recorded" / "alertmanager"
WAIT_SECONDS = 60

GPU = 'gpu="3",UUID="GPU-4d3c2b1a-0000-4000-8000-000000000003",pci_bus_id="00000000:C1:00.0",device="nvidia3",modelName="NVIDIA H100 80GB HBM3",Hostname="gpu-node-7",pod="train-0",namespace="research",container="main"'  # noqa: E501
SICK = f"""\
DCGM_EXP_XID_ERRORS_COUNT{{{GPU},xid="79",window_size_in_ms="300000"}} 1
DCGM_FI_DEV_XID_ERRORS{{{GPU},err_code="79",err_msg="GPU has fallen off the bus"}} 79
DCGM_FI_DEV_ROW_REMAP_FAILURE{{{GPU}}} 1
kube_node_status_condition{{node="gpu-node-8",condition="Ready",status="true"}} 0
kube_node_status_condition{{node="gpu-node-9",condition="Ready",status="true"}} 0
cluster_is_tired 1
"""
WELL = f"""\
DCGM_FI_DEV_ROW_REMAP_FAILURE{{{GPU}}} 0
kube_node_status_condition{{node="gpu-node-8",condition="Ready",status="true"}} 1
kube_node_status_condition{{node="gpu-node-9",condition="Ready",status="true"}} 1
cluster_is_tired 0
"""
RULES = r"""
groups:
- name: nodes
  rules:
  - {alert: GpuXid, expr: DCGM_EXP_XID_ERRORS_COUNT > 0,
     annotations: {summary: "XID {{ $labels.xid }} on {{ $labels.Hostname }}"}}
  - {alert: GpuLastXid, expr: DCGM_FI_DEV_XID_ERRORS > 0, labels: {groundcrew_severity: evict}}
  - {alert: GpuRowRemapFailure, expr: DCGM_FI_DEV_ROW_REMAP_FAILURE == 1,
     labels: {severity: critical, groundcrew_severity: cordon}}
  - {alert: KubeNodeNotReady,
     expr: 'kube_node_status_condition{condition="Ready",status="true"} == 0',
     labels: {severity: warning},
     annotations: {description: "{{ $labels.node }} has been unready", summary: Node is not ready.}}
  - {alert: ClusterIsTired, expr: cluster_is_tired == 1}
"""
PROMETHEUS = """
global: {{scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}}
rule_files: [rules.yml]
alerting: {{alertmanagers: [{{static_configs: [{{targets: ['127.0.0.1:{alertmanager}']}}]}}]}}
scrape_configs:
- job_name: dcgm
  static_configs:
  - targets: ['127.0.0.1:{exporter}']
    labels: {{namespace: gpu-operator, pod: dcgm-exporter-x7k2p}}
  relabel_configs: [{{target_label: instance, replacement: '10.0.3.7:9400'}}]
"""
ALERTMANAGER = """
route: {{receiver: groundcrew, group_by: [alertname], group_wait: 1s, group_interval: 2s,
         repeat_interval: 4s}}
receivers:
- name: groundcrew
  webhook_configs: [{{url: 'http://127.0.0.1:{sink}/from/alertmanager', send_resolved: true}}]
"""


class Posts:
    """What Alertmanager has posted, with the headers as it sent them."""

    def __init__(self) -> None:
        self.taken: list[tuple[dict[str, str], Any]] = []

    def find(self, alert: str, status: str, index: int = 0) -> tuple[dict[str, str], Any]:
        """The post number ``index`` of that kind, waited for."""
        until = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < until:
            found = [
                post
                for post in self.taken
                if post[1]["groupLabels"]["alertname"] == alert and post[1]["status"] == status
            ]
            if len(found) > index:
                return found[index]
            time.sleep(0.2)
        raise SystemExit(f"Alertmanager has not posted {alert} {status} within {WAIT_SECONDS} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--into", type=Path, default=FOLDER)
    into = parser.parse_args().into
    posts, page = Posts(), [SICK]
    with (
        serve(_exporter(page)) as exporter,
        serve(_sink(posts)) as sink,
        tempfile.TemporaryDirectory() as folder,
        running(Path(folder), exporter, sink),
    ):
        kept = {
            f"{alert}_firing": posts.find(alert, "firing")
            for alert in ("GpuXid", "GpuLastXid", "GpuRowRemapFailure", "KubeNodeNotReady")
        }
        kept["ClusterIsTired_firing"] = posts.find("ClusterIsTired", "firing")
        kept["KubeNodeNotReady_repeated"] = posts.find("KubeNodeNotReady", "firing", 1)
        page[0] = WELL
        kept["GpuRowRemapFailure_resolved"] = posts.find("GpuRowRemapFailure", "resolved")
        kept["KubeNodeNotReady_resolved"] = posts.find("KubeNodeNotReady", "resolved")
        # Its series is gone, not well: that is told in the same words.
        kept["GpuXid_resolved_without_series"] = posts.find("GpuXid", "resolved")
    for name, (headers, body) in kept.items():
        write(into / f"prometheus_{name.lower()}.json", headers, body)


def write(path: Path, headers: dict[str, str], body: Any) -> None:
    whole = {
        "description": f"{versions()}; made by tests/events/record/alertmanager.py",
        "method": "POST",
        "path": "/from/alertmanager",
        # Its host is a port of the moment, and the body is indented here.
        "headers": {k: v for k, v in headers.items() if k not in ("Host", "Content-Length")},
        "body": body,
    }
    path.write_text(json.dumps(whole, indent=2) + "\n")
    reading = recording.understand(recording.load(path.read_bytes()))
    said: Any = {"declined": reading.declined}
    if reading.notices:
        said = msgspec.to_builtins(reading.notices, str_keys=True)
        said = {"notices": said, "skipped": reading.skipped} if reading.skipped else said
    beside = path.with_name(path.stem + recording.EXPECTED_SUFFIX)
    beside.write_text(json.dumps(json.loads(msgspec.json.encode(said)), indent=2) + "\n")


def versions() -> str:
    said = []
    for program in ("prometheus", "prometheus-alertmanager"):
        told = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
        name, _, rest = (told.stdout or told.stderr).partition(", version ")
        said.append(f"{name} {rest.split('+')[0].split(' ')[0]}")
    return ", ".join(said)


@contextmanager
def running(folder: Path, exporter: int, sink: int) -> Iterator[None]:
    """Prometheus and Alertmanager, set up in ``folder``."""
    prometheus, alertmanager = free_port(), free_port()
    ports = {"alertmanager": alertmanager, "exporter": exporter, "sink": sink}
    (folder / "rules.yml").write_text(RULES)
    (folder / "prometheus.yml").write_text(PROMETHEUS.format(**ports))
    (folder / "alertmanager.yml").write_text(ALERTMANAGER.format(**ports))
    commands = (
        ["prometheus-alertmanager", "--config.file=alertmanager.yml", "--storage.path=am",
         "--cluster.listen-address=", f"--web.listen-address=127.0.0.1:{alertmanager}",
         "--web.external-url=http://alertmanager.monitoring.svc:9093", "--web.route-prefix=/"],
        ["prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=tsdb",
         f"--web.listen-address=127.0.0.1:{prometheus}",
         "--web.external-url=http://prometheus.monitoring.svc:9090", "--web.route-prefix=/"],
    )  # fmt: skip
    started = []
    try:
        for command in commands:
            log = (folder / f"{command[0]}.log").open("wb")
            started.append(subprocess.Popen(command, cwd=folder, stdout=log, stderr=log))
            log.close()
        yield
    finally:
        for process in started:
            process.terminate()
            process.wait(timeout=20)


@contextmanager
def serve(handler: type[BaseHTTPRequestHandler]) -> Iterator[int]:
    """The port of the loopback on which ``handler`` answers."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


def _exporter(page: list[str]) -> type[BaseHTTPRequestHandler]:
    return _handler(lambda _headers, _body: page[0].encode())


def _sink(posts: Posts) -> type[BaseHTTPRequestHandler]:
    def take(headers: dict[str, str], body: bytes) -> bytes:
        posts.taken.append((headers, json.loads(body)))
        return b""

    return _handler(take)


def _handler(answer: Callable[[dict[str, str], bytes], bytes]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            said = answer(dict(self.headers.items()), self.rfile.read(length))
            self.send_response(200 if said else 204)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        do_POST = do_GET  # noqa: N815

        def log_message(self, *args: Any) -> None:
            pass

    return Handler


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


if __name__ == "__main__":
    main()
