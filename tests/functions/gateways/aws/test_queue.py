"""A queue by its URL, and what is said when it cannot be had."""

from collections.abc import Callable, Iterator

import pytest

from functions.gateways.aws import errors
from functions.gateways.aws.queue import Queue, explained
from tests.support import aws as cloud
from tests.support.sqs import MemoryQueue


@pytest.fixture(scope="module", autouse=True)
def _aws() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch, cloud.mocked(patch):
        yield


@pytest.mark.parametrize(
    ("url", "region"),
    [
        ("https://sqs.eu-west-1.amazonaws.com/111122223333/gc", "eu-west-1"),
        ("https://sqs.cn-north-1.amazonaws.com.cn/111122223333/gc", "cn-north-1"),
        ("https://vpce-0a1b-c2d3.sqs.us-east-2.vpce.amazonaws.com/111122223333/gc", "us-east-2"),
        ("https://sqs.us-west-2.api.aws/111122223333/gc", "us-west-2"),
    ],
)
def test_the_region_is_that_of_the_url(url: str, region: str) -> None:
    assert Queue(url).region == region


@pytest.mark.parametrize("url", ["", "groundcrew", "arn:aws:sqs:us-east-1:1:q", "https:///q",
                                 "https://sqs.us-east-1.amazonaws.com/"])  # fmt: skip
def test_what_is_no_url_of_a_queue_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="is no URL of a queue"):
        Queue(url, region="us-east-1")


def test_a_queue_that_does_not_exist_is_said_with_the_next_step() -> None:
    queue = Queue(f"https://sqs.{cloud.REGION}.amazonaws.com/{cloud.ACCOUNT}/none")
    with pytest.raises(errors.NotFound) as missing:
        queue.about()
    assert "check its URL and account" in explained(missing.value, queue.url)


def test_whether_there_is_a_dead_letter_queue_is_known() -> None:
    assert Queue(cloud.queue("with", receives=3)).about().dead_letters
    assert not Queue(cloud.queue("without")).about().dead_letters


def test_more_messages_than_one_call_takes_are_all_deleted_and_a_bad_handle_is_named() -> None:
    url = cloud.queue("many")
    cloud.put(url, *("{}" for _ in range(25)))
    queue = Queue(url, wait_seconds=0)
    handles: list[str] = []
    while messages := queue.receive(30):
        handles += [message.handle for message in messages]
    assert len(handles) == 25
    assert queue.delete([*handles, "nonsense"]) == ["nonsense"]
    assert cloud.depth(url) == (0, 0)


def moto(*bodies: str) -> Queue:
    url = cloud.queue("rules", receives=2)
    cloud.put(url, *bodies)
    return Queue(url, wait_seconds=0)


def memory(*bodies: str) -> Queue:
    return MemoryQueue(*bodies, receives=2)


@pytest.mark.parametrize("made", [moto, memory])
def test_the_queue_of_tests_keeps_the_rules_of_moto(made: Callable[..., Queue]) -> None:
    queue = made("one")
    (first,) = queue.receive(30)
    assert (first.receives, queue.receive(30)) == (1, [])
    assert queue.hide([first.handle], 0) == []
    (second,) = queue.receive(30)
    assert (second.message_id, second.receives) == (first.message_id, 2)
    assert second.handle != first.handle
    assert queue.hide([second.handle, "nonsense"], 0) == ["nonsense"]
    assert queue.receive(30) == [], "it was received twice, and is a dead letter now"
    queue.send("two")
    (third,) = queue.receive(30)
    assert (third.body, third.forwarded) == ("two", True)
    assert queue.delete([third.handle]) == []
    assert queue.hide([third.handle], 0) == [third.handle]


def test_what_was_forwarded_is_known_by_its_mark() -> None:
    url = cloud.queue("forwarded")
    queue = Queue(url, wait_seconds=0)
    cloud.put(url, "own")
    (own,) = queue.receive(30)
    queue.send("theirs")
    (theirs,) = queue.receive(30)
    assert (own.forwarded, theirs.forwarded, theirs.body) == (False, True, "theirs")
