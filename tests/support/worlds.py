"""Scenarios in other worlds: the embedded cluster and the functions over HTTP."""

import contextlib
import logging
import threading
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import flask
from werkzeug.serving import make_server

from functions.edge import http
from functions.edge.call import Function, Reply
from functions.gateways.kubernetes.connect import connect
from infra.local import player
from infra.local.broker import post
from infra.local.clock import SimulatedClock
from infra.local.cluster.http import serve
from infra.local.manifests import Delivery
from infra.local.player import Played
from infra.local.scenario import Scenario
from infra.local.timeline import normalised
from infra.local.world import EmbeddedWorld

PATIENCE = Delivery(timeout=timedelta(seconds=30))
"""A loaded machine that runs tests is no reason to call a function twice."""


def play(scenario: Scenario, **more: Any) -> Played:
    """In process, as ``groundcrew replay`` plays it."""
    world = EmbeddedWorld(SimulatedClock(scenario.start - player.WARM_UP))
    return player.play(scenario, world, **more)


def play_over_http(scenario: Scenario, folder: Path) -> Played:
    """The functions reach the cluster over HTTP, and the broker the functions."""
    clock = SimulatedClock(scenario.start - player.WARM_UP)
    world = EmbeddedWorld(clock)
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(serve(world.cluster, on_wait=clock.waited))
        cluster = connect(str(server.kubeconfig(folder / "kubeconfig")))
        world.transport = cluster._transport

        def through(functions: Mapping[str, Function]) -> Mapping[str, Any]:
            return {
                name: stack.enter_context(served(function)) for name, function in functions.items()
            }

        return player.play(scenario, world, through=through)


@contextlib.contextmanager
def served(function: Function) -> Iterator[Any]:
    """A caller of ``function`` over HTTP."""
    with listening(function) as url:
        trigger: Any = SimpleNamespace(subscriber=function.name, delivery=PATIENCE)

        def call(events: list[Any]) -> Reply:
            (event,) = events
            return post({function.name: url}, trigger, event)

        yield call


@contextlib.contextmanager
def listening(function: Function) -> Iterator[str]:
    """``function`` behind its HTTP edge on a socket; its URL."""
    view = http.function(
        function.name,
        function.handle,
        connect=function.connect,
        clock=function.clock,
        settings=function.settings,
        aws=function.aws,
    )
    app = flask.Flask(function.name)
    for rule in ("/", "/<path:path>"):
        app.add_url_rule(rule, rule, lambda path="": view(flask.request), methods=["GET", "POST"])
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = make_server("127.0.0.1", 0, app, threaded=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def outcome(played: Played) -> dict[str, Any]:
    """What must be the same in every world: decisions by node, how the nodes ended, and what
    did not hold."""
    decided = {f"decided about {n}": d for n, d in normalised(played.entries).items()}
    return decided | {f"end of {n}": end for n, end in played.final.items()}
