"""The token for an EKS cluster, checked as the cluster's side checks it."""

import base64
import hashlib
import hmac
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from botocore.credentials import ReadOnlyCredentials

from functions.gateways.aws import errors
from functions.gateways.aws.calls import Clients
from functions.gateways.aws.eks import Address, Tokens, address, token, way
from functions.gateways.clock import SystemClock
from functions.gateways.kubernetes.errors import Unreachable
from functions.gateways.kubernetes.rest import RestTransport
from functions.gateways.kubernetes.transport import Request
from tests.support import aws as cloud
from tests.support.certificates import Signed, secured

KEYS = ReadOnlyCredentials("AKIDEXAMPLE", "secret", "session")
REGION, NAME = "eu-west-1", "gpus"


def opened(text: str) -> str:
    assert text.startswith("k8s-aws-v1.")
    coded = text.removeprefix("k8s-aws-v1.")
    assert "=" not in coded
    return base64.urlsafe_b64decode(coded + "=" * (-len(coded) % 4)).decode()


def signature(url: str, name: str, secret: str) -> str:
    """Signature Version 4 by its own description, with the header that the cluster sends along.
    https://docs.aws.amazon.com/IAM/latest/UserGuide/create-signed-request.html"""
    parts = urlsplit(url)
    query = "&".join(
        sorted(one for one in parts.query.split("&") if not one.startswith("X-Amz-Signature="))
    )
    given = dict(parse_qsl(parts.query))
    canonical = "\n".join(
        (
            "GET", "/", query, f"host:{parts.netloc}", f"x-k8s-aws-id:{name}", "",
            "host;x-k8s-aws-id", hashlib.sha256(b"").hexdigest(),
        )
    )  # fmt: skip
    scope = given["X-Amz-Credential"].split("/", 1)[1]
    to_sign = "\n".join(
        ("AWS4-HMAC-SHA256", given["X-Amz-Date"], scope,
         hashlib.sha256(canonical.encode()).hexdigest())
    )  # fmt: skip
    key = f"AWS4{secret}".encode()
    for part in (*scope.split("/"),):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return hmac.new(key, to_sign.encode(), hashlib.sha256).hexdigest()


def test_it_is_a_presigned_question_who_we_are_for_that_cluster_alone() -> None:
    url = opened(token(KEYS, REGION, NAME))
    given = dict(parse_qsl(urlsplit(url).query))
    assert urlsplit(url).netloc == "sts.eu-west-1.amazonaws.com"
    assert (given["Action"], given["Version"]) == ("GetCallerIdentity", "2011-06-15")
    assert given["X-Amz-SignedHeaders"] == "host;x-k8s-aws-id"
    assert given["X-Amz-Expires"] == "60"
    assert given["X-Amz-Security-Token"] == "session"
    assert given["X-Amz-Signature"] == signature(url, NAME, "secret")
    assert given["X-Amz-Signature"] != signature(url, "another", "secret")


def test_in_china_sts_has_another_address() -> None:
    url = opened(token(KEYS, "cn-north-1", NAME))
    assert urlsplit(url).netloc == "sts.cn-north-1.amazonaws.com.cn"


class Clock(SystemClock):
    def __init__(self) -> None:
        self.at = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)

    def now(self) -> datetime:
        return self.at


class Session:
    """botocore's, as far as it hands out credentials."""

    def __init__(self, keys: Any) -> None:
        self.keys = keys

    def get_credentials(self) -> Any:
        return self if self.keys else None

    def get_frozen_credentials(self) -> Any:
        return self.keys


def tokens(keys: Any, clock: Clock) -> Tokens:
    return Tokens(Clients(session=lambda: Session(keys)), REGION, NAME, clock)


def test_it_is_kept_for_its_life_and_made_anew_before_that_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[datetime] = []
    clock = Clock()
    monkeypatch.setattr(
        "functions.gateways.aws.eks.token", lambda *_: made.append(clock.at) or str(len(made))
    )
    kept = tokens(KEYS, clock)
    for minute in range(40):
        clock.at = datetime(2026, 3, 2, 9, 0, tzinfo=UTC) + timedelta(minutes=minute)
        kept.current()
        assert clock.at - made[-1] < timedelta(minutes=13)
    assert [at.minute for at in made] == [0, 13, 26, 39]


def test_without_credentials_that_is_said() -> None:
    with pytest.raises(errors.NotConfigured, match="no AWS credentials"):
        tokens(None, Clock()).current()


def test_the_address_of_the_cluster_is_asked_of_eks(monkeypatch: pytest.MonkeyPatch) -> None:
    with cloud.mocked(monkeypatch):
        made = cloud.client("eks").create_cluster(
            name=NAME, roleArn="arn:aws:iam::123456789012:role/eks", resourcesVpcConfig={}
        )["cluster"]
        found = address(Clients(), cloud.REGION, NAME, Clock())
        assert found.endpoint == made["endpoint"]
        assert found.authority == base64.b64decode(made["certificateAuthority"]["data"])
        with pytest.raises(errors.NotFound, match="none"):
            address(Clients(), cloud.REGION, "none", Clock())


@pytest.mark.parametrize(
    "proxies", [{}, {"HTTPS_PROXY": "http://127.0.0.1:1", "NO_PROXY": "localhost"}]
)
def test_each_request_to_the_cluster_carries_the_token_of_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, proxies: dict[str, str]
) -> None:
    for name, value in proxies.items():
        monkeypatch.setenv(name, value)
    current = iter(["one", "two"])
    cluster = Signed("localhost")
    with secured(tmp_path, cluster) as server:
        where = Address(f"https://localhost:{server.server_port}", cluster.certificate)
        transport = RestTransport(lambda: way(where, lambda: next(current)))
        for _ in range(2):
            transport.send(Request(method="GET", path="/version"))
        transport.close()
    assert [seen[2]["authorization"] for seen in server.seen] == ["Bearer one", "Bearer two"]


@pytest.mark.parametrize(
    "proxies", [{}, {"HTTPS_PROXY": "http://127.0.0.1:1", "NO_PROXY": "localhost"}]
)
def test_no_token_is_shown_to_somebody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, proxies: dict[str, str]
) -> None:
    for name, value in proxies.items():
        monkeypatch.setenv(name, value)
    with secured(tmp_path, Signed("localhost")) as server:
        url = f"https://localhost:{server.server_port}"
        where = Address(url, Signed("localhost").certificate)
        transport = RestTransport(lambda: way(where, lambda: "secret"))
        with pytest.raises(Unreachable, match="certificate"):
            transport.send(Request(method="GET", path="/version"))
    assert server.seen == []
