"""The typed client: what it refuses to send, and what it makes of answers."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import msgspec
import pytest

from functions.gateways.kubernetes import errors
from functions.gateways.kubernetes.client import Cluster
from functions.gateways.kubernetes.transport import Request, Response


class Scripted:
    """Answers each request with the next of ``answers``, the last one for ever."""

    def __init__(self, *answers: Response) -> None:
        self.answers = list(answers)
        self.sent: list[Request] = []

    def send(self, request: Request) -> Response:
        self.sent.append(request)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def stream(self, request: Request) -> tuple[Response, Iterator[bytes]]:
        return self.send(request), iter(())


def answer(body: Any, status: int = 200) -> Response:
    return Response(status=status, body=msgspec.json.encode(body))


@pytest.mark.parametrize(
    "name",
    [
        "../namespaces/kube-system",
        "..",
        "a/../b",
        "n1?watch=true",
        "n1#x",
        "n 1",
        "",
        "n1/",
        "%2e%2e",
    ],
)
def test_a_name_that_no_object_can_have_is_never_sent(name: str) -> None:
    transport = Scripted(answer({}))
    with pytest.raises(errors.NotFound):
        Cluster(transport).get_node(name)
    with pytest.raises(errors.NotFound):
        Cluster(transport).patch_node(name, [])
    assert not transport.sent


@pytest.mark.parametrize("name", ["n1", "ip-10-0-0-1.ec2.internal", "gke-a-b-0123abcd-wxyz"])
def test_the_names_of_real_nodes_are(name: str) -> None:
    transport = Scripted(answer({"metadata": {"name": name}}))
    assert Cluster(transport).get_node(name).name == name


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (401, errors.Unauthorized),
        (403, errors.Forbidden),
        (404, errors.NotFound),
        (409, errors.Conflict),
        (410, errors.Gone),
        (422, errors.TestFailed),
        (429, errors.TooManyRequests),
        (500, errors.ServerError),
        (504, errors.ServerError),
        (418, errors.ApiError),
    ],
)
def test_a_refusal_is_an_error_of_its_kind_that_names_the_request(
    status: int, kind: type[errors.ApiError]
) -> None:
    transport = Scripted(answer({"code": status, "message": "because"}, status))
    with pytest.raises(kind, match=f"GET /api/v1/nodes/n1: {status} .*because") as caught:
        Cluster(transport).get_node("n1")
    assert type(caught.value) is kind


def test_a_proxys_page_with_status_200_counts_as_no_answer() -> None:
    transport = Scripted(Response(status=200, body=b"<html>maintenance</html>"))
    with pytest.raises(errors.Unreachable):
        Cluster(transport).get_node("n1")


def test_a_list_is_read_to_its_last_page() -> None:
    first = {"items": [{"metadata": {"name": "a"}}], "metadata": {"continue": "t"}}
    last = {"items": [{"metadata": {"name": "b"}}], "metadata": {}}
    transport = Scripted(answer(first), answer(last))
    assert [n.name for n in Cluster(transport).list_nodes()] == ["a", "b"]
    assert [r.query.get("continue") for r in transport.sent] == [None, "t"]


class Streaming(Scripted):
    """A watch that tells ``lines``, and then ends."""

    def __init__(self, *lines: Any) -> None:
        super().__init__(answer({}))
        self.lines = [msgspec.json.encode(line) for line in lines]
        self.closed = False

    def stream(self, request: Request) -> tuple[Response, Iterator[bytes]]:
        def told() -> Iterator[bytes]:
            try:
                yield from self.lines
            finally:
                self.closed = True

        return self.send(request), told()


def said(kind: str, name: str, version: int, **more: Any) -> Any:
    meta = {"name": name, "uid": name, "resourceVersion": str(version), **more}
    return {"type": kind, "object": {"metadata": meta}}


END = said("BOOKMARK", "", 7, annotations={"k8s.io/initial-events-end": "true"})


def test_what_there_is_and_what_follows_are_one_request() -> None:
    """Changes may come among what there is; another bookmark ends nothing."""
    transport = Streaming(
        said("ADDED", "a", 1), said("ADDED", "b", 2), said("BOOKMARK", "", 3),
        said("MODIFIED", "a", 4), said("DELETED", "b", 5), said("ADDED", "c", 6), END,
        said("DELETED", "a", 8),
    )  # fmt: skip
    found = Cluster(transport).pods_watched(node="n1", timeout_seconds=5)
    assert found is not None
    page, watch = found
    versions = {p.metadata.name: p.metadata.resource_version for p in page.items or ()}
    assert (versions, page.metadata.resource_version) == ({"a": "4", "c": "6"}, "7")
    assert [(e.type, e.object.metadata.name) for e in watch] == [("DELETED", "a")]
    assert transport.sent[0].query["fieldSelector"] == "spec.nodeName=n1"


def test_a_watch_that_ends_before_all_is_told_has_told_nothing() -> None:
    transport = Streaming(said("ADDED", "a", 1))
    with pytest.raises(errors.Unreachable, match="before all was told"):
        Cluster(transport).pods_watched(node="n1", timeout_seconds=5)
    assert transport.closed


def test_a_server_that_cannot_do_both_in_one_is_asked_once() -> None:
    transport = Scripted(answer({"code": 422, "message": "forbidden"}, 422))
    cluster = Cluster(transport)
    for one in (cluster.fresh(), cluster, cluster.fresh()):
        assert one.pods_watched(node="n1", timeout_seconds=5) is None
    assert len(transport.sent) == 1


def test_null_equals_absent() -> None:
    node = {
        "metadata": {"name": "n1", "labels": None, "annotations": None},
        "spec": {"providerID": None, "taints": None, "unschedulable": None},
        "status": {"conditions": None, "nodeInfo": None},
    }
    read = Cluster(Scripted(answer(node))).get_node("n1")
    assert (read.provider_id, read.boot_id, read.unschedulable) == ("", "", False)


def test_how_wrong_our_clock_is_is_known_before_the_first_request_of_a_call() -> None:
    nodes = answer({"metadata": {}, "items": []})
    behind = format_datetime(datetime.now(UTC) - timedelta(minutes=5), usegmt=True)
    first = Cluster(Scripted(msgspec.structs.replace(nodes, headers={"date": behind}))).fresh()
    second = first.fresh()
    assert (first.skew, second.skew) == (timedelta(0), timedelta(0))
    list(first.list_nodes())
    for cluster in (first, second, second.fresh()):
        assert timedelta(minutes=-6) < cluster.skew < timedelta(minutes=-4)


def test_requests_are_counted_by_verb_and_resource() -> None:
    cluster = Cluster(Scripted(answer({"metadata": {"name": "n1"}})))
    cluster.get_node("n1")
    cluster.get_node("n1")
    cluster.patch_node("n1", [])
    assert cluster.requests == {"get nodes": 2, "patch nodes": 1}
    assert cluster.wrote == 1
