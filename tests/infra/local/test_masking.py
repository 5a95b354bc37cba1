"""What a recording does not hold: people, secrets, accounts, addresses, and what nobody reads."""

import ipaddress
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from events import recording
from events.notice import Identity
from events.recording import Recording
from infra.local import masking_rules
from infra.local.masking import Masker
from infra.local.masking_rules import MaskingError
from infra.local.pseudonyms import Pseudonyms

RULES = masking_rules.load()
KEY = b"k" * 32
RECORDED = Path("events/recorded")


def masker(**more: Any) -> Masker:
    return Masker(RULES, KEY, **more)


def masked(value: Any, **more: Any) -> Any:
    kept = masker(**more).body(msgspec.json.encode(value))
    return json.loads(kept)


def text(value: str, **more: Any) -> str:
    return str(masked({"x": value}, **more)["x"])


@pytest.mark.parametrize(
    ("said", "gone"),
    [
        ("ask jane.doe+x@corp.example about it", "jane"),
        ("ask jane.doe%40corp.example about it", "jane"),
        ("arn:aws:iam::123456789012:user/jane", "123456789012"),
        ("arn:aws:iam::123456789012:user/path/jane", "jane"),
        ("arn:aws:sts::123456789012:assumed-role/Admin/jane", "jane"),
        ("https://sqs.us-east-1.amazonaws.com/123456789012/queue", "123456789012"),
        ("bucket-123456789012-logs", "123456789012"),
        ("https://jane:pw@grafana.corp.example:3000/d/1", "corp"),
        ("see http://wiki.corp.example/page", "corp"),
        ("https://evil@x.amazonaws.com/", "evil"),
        ("https://hooks.slack.com/services/T0/B0/abcdefgh", "abcdefgh"),
        ("https://x.blob.core.windows.net/?sv=1&sig=abcdefgh", "abcdefgh"),
        ("Authorization: Bearer abcdefgh", "abcdefgh"),
        ("password=hunter2", "hunter2"),
        ('{"api_key": "hunter2", broken', "hunter2"),
        ("AWS AKIAIOSFODNN7EXAMPLE used", "AKIAIOSFODNN7EXAMPLE"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc", "eyJzdWIiOiIxIn0"),
        ("-----BEGIN PRIVATE KEY-----\nMIIabc\n-----END PRIVATE KEY-----", "MIIabc"),
        ("ghp_0123456789abcdefghij", "0123456789abcdefghij"),
        ("from 10.1.2.3.", "10.1.2.3"),
        ("from 203.0.113.9:443", "203.0.113.9"),
        ("from 2001:db8::17", "db8::17"),
        ("fe80:0000:0000:0000:0a1b:2cff:fe3d:4e5f is routed", "nothing"),
        ("at 0a:1b:2c:3d:4e:5f", "0a:1b:2c:3d:4e:5f"),
        ("call +1 415 555 0199", "555 0199"),
        ("in /home/jane/job", "jane"),
        ("user=jane", "jane"),
    ],
)
def test_what_is_personal_or_secret_in_a_text_is_gone(said: str, gone: str) -> None:
    assert gone not in text(said)


@pytest.mark.parametrize(
    "said",
    [
        "NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python, GPU has fallen off the bus",
        "aws:///us-east-1a/i-0123456789abcdef0",
        "550e8400-e29b-41d4-a716-446655440000",
        "GPU-550e8400-e29b-41d4-a716-446655440000",
        "2026-03-02T08:00:00.000Z",
        "ip-10-0-1-2.ec2.internal",
        "https://docs.aws.amazon.com/health",
        "http://localhost:9090/graph",
        "127.0.0.1:9400",
        "sha256:0f8b3f1d4c6e",
        "Tue, 3 Mar 2026 09:00:00 GMT",
        "PASS_2026-03-02_08.00.00UTC",
    ],
)
def test_what_a_replay_needs_stays_as_it_is(said: str) -> None:
    assert text(said) == said


def test_what_is_named_by_its_field_is_gone_wherever_it_stands() -> None:
    found = masked(
        {
            "detail": {
                "userIdentity": {"arn": "jane", "sessionContext": {}},
                "Requested-By": "Jane Doe",
                "requested_by": ["Jane Doe", "John"],
                "sessionToken": "abc",
                "credentials": {"a": 1},
                "pin_secret": 1234,
                "account": "123456789012",
                "AccountId": 123456789012,
                "subscriptionId": "550e8400-e29b-41d4-a716-446655440000",
                "owner": None,
            }
        }
    )["detail"]
    assert found["Requested-By"] == found["requested_by"][0] != found["requested_by"][1]
    assert found["Requested-By"].startswith("person-")
    assert (found["sessionToken"], found["pin_secret"], found["owner"]) == ("masked", 0, None)
    assert {"userIdentity", "credentials"}.isdisjoint(found)
    assert found["account"] != "123456789012"
    assert len(found["account"]) == 12
    assert found["account"] == f"{found['AccountId']:012}"
    assert len(found["subscriptionId"]) == 36


def test_what_is_no_secret_although_it_is_called_so_is_kept_and_still_looked_at() -> None:
    token = "87654321-4321-4321-4321-210987654321"
    found = masked({"detail": {"LifecycleActionToken": token, "nextToken": token}})["detail"]
    assert found == {"LifecycleActionToken": token, "nextToken": "masked"}
    assert masked({"LifecycleActionToken": "jane@corp.example"}) != {
        "LifecycleActionToken": "jane@corp.example"
    }


def test_json_in_a_text_is_looked_into() -> None:
    inner = json.dumps({"token": "abc", "at": json.dumps(["jane@corp.example"])})
    found = json.loads(masked({"Message": inner})["Message"])
    assert found["token"] == "masked"
    assert json.loads(found["at"])[0].endswith("@masked.invalid")
    untouched = '{"a":  1}'
    assert masked({"Message": untouched})["Message"] == untouched


def test_of_headers_only_those_of_the_event_are_kept() -> None:
    kept = masker().headers(
        {
            "Content-Type": "application/json",
            "CE-Id": "1",
            "ce-subject": "a%20jane%40corp.example",
            "ce-authtoken": "abc",
            "Groundcrew-Node": "gpu-01",
            "Authorization": "Bearer abc",
            "Cookie": "a=b",
            "X-Forwarded-For": "10.0.0.1",
        }
    )
    assert list(kept) == ["content-type", "ce-id", "ce-subject", "ce-authtoken", "groundcrew-node"]
    assert kept["ce-authtoken"] == "masked"
    assert "jane" not in kept["ce-subject"]
    assert kept["ce-subject"].endswith("@masked.invalid")


def test_what_is_neither_json_nor_text_is_left_out() -> None:
    assert masker().body(b"\xff\xfe\0") == ""
    assert "jane" not in str(masker().body(b"to jane@corp.example"))
    assert json.loads(masker().body(b'"to jane@corp.example"')).startswith("to mail-")


SECRETS = ("jane.doe@corp.example", "AKIAIOSFODNN7EXAMPLE", "ghp_0123456789abcdefghij",
           "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJ4In0.c2ln", "203.0.113.77")  # fmt: skip
_around = st.text(alphabet=" ,;:()<>[]{}'\"\\/\n\té", max_size=3)
_said = st.one_of(
    st.text(max_size=8),
    st.builds(lambda a, s, b: a + s + b, _around, st.sampled_from(SECRETS), _around),
)
_trees = st.recursive(
    st.one_of(_said, st.none(), st.integers(0, 9)),
    lambda inside: st.one_of(
        st.lists(inside, max_size=3),
        st.dictionaries(_said, inside, max_size=3),
        inside.map(json.dumps),
    ),
    max_leaves=8,
)


@settings(max_examples=300, deadline=None)
@given(tree=_trees, identities=st.booleans())
def test_no_address_or_token_survives_wherever_it_stands(tree: Any, identities: bool) -> None:
    for body in (json.dumps(tree).encode(), json.dumps(tree)[:-1].encode()):
        kept = masker(identities=identities).body(body)
        shown = kept.decode() if isinstance(kept, bytes) else kept
        for secret in SECRETS:
            assert secret not in shown


@pytest.mark.parametrize(
    "network", ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "198.51.0.0/16"]
)
def test_no_two_addresses_become_one(network: str) -> None:
    made, inside = Pseudonyms(KEY), ipaddress.ip_network(network)
    addresses = [str(inside[number]) for number in range(0, 65536, 13)]
    others = {made.address(address) for address in addresses}
    assert len(others) == len(addresses)
    if inside.is_private:
        assert all(ipaddress.ip_address(other) in inside for other in others)


def test_the_same_is_the_same_throughout_a_recording_and_in_no_other() -> None:
    one, same, other = masker(), masker(), Masker(RULES, b"o" * 32)
    body = b'{"user":"jane"}'
    assert one.body(body) == one.body(body) == same.body(body) != other.body(body)


# Kubernetes objects

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "llama-0",
        "namespace": "research",
        "uid": "550e8400-e29b-41d4-a716-446655440000",
        "labels": {"app": "llama", "groundcrew.dev/gang": "a", "job-name": "x"},
        "annotations": {"notes": "by Jane", "groundcrew.dev/evict-after": "2026-03-02T08:00:00Z"},
        "managedFields": [{"manager": "kubectl"}],
    },
    "spec": {
        "nodeName": "gpu-01",
        "containers": [
            {
                "name": "main",
                "image": "registry.corp.example/llama:1",
                "env": [{"name": "HF_TOKEN", "value": "hunter2"}],
                "args": ["--user=jane"],
                "resources": {"limits": {"nvidia.com/gpu": "8"}},
            }
        ],
        "volumes": [{"name": "s", "secret": {"secretName": "x"}}, {"name": "d", "emptyDir": {}}],
        "tolerations": [{"key": "team", "operator": "Equal", "value": "red"}],
        "nodeSelector": {"pool": "red"},
    },
    "status": {"phase": "Running", "podIP": "10.0.0.1", "message": "jane did it"},
}
PDB = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "llama", "namespace": "research"},
    "spec": {
        "minAvailable": 1,
        "selector": {
            "matchLabels": {"app": "llama"},
            "matchExpressions": [{"key": "app", "operator": "In", "values": ["llama", "x"]}],
        },
    },
}


def test_of_an_object_only_what_is_read_is_kept() -> None:
    kept = masker().object(POD)
    assert kept["spec"]["containers"] == [{"resources": {"limits": {"nvidia.com/gpu": "8"}}}]
    assert kept["spec"]["volumes"] == [{"name": "s"}, {"name": "d", "emptyDir": {}}]
    assert kept["status"] == {"phase": "Running"}
    assert kept["metadata"]["annotations"] == {"groundcrew.dev/evict-after": "2026-03-02T08:00:00Z"}
    assert (kept["metadata"]["name"], kept["spec"]["nodeName"]) == ("llama-0", "gpu-01")
    for gone in ("hunter2", "jane", "corp", "managedFields", "10.0.0.1", "registry"):
        assert gone not in json.dumps(kept)


def test_selectors_still_mean_the_same_pods() -> None:
    pod, pdb = masker().object(POD), masker().object(PDB)
    value = pod["metadata"]["labels"]["app"]
    assert value.startswith("v-")
    assert pdb["spec"]["selector"]["matchLabels"] == {"app": value}
    assert pdb["spec"]["selector"]["matchExpressions"][0]["values"][0] == value
    assert pod["metadata"]["labels"]["groundcrew.dev/gang"] == "a"
    taint = {"key": "team", "value": "red", "effect": "NoSchedule"}
    node = masker().object(
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": {"pool": "red"}},
         "spec": {"taints": [taint]}}
    )  # fmt: skip
    assert node["spec"]["taints"][0]["value"] == pod["spec"]["tolerations"][0]["value"] != "red"
    assert node["metadata"]["labels"] == pod["spec"]["nodeSelector"]


def test_of_other_kinds_and_other_peoples_config_maps_nothing_is_kept_but_names() -> None:
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "x"},
        "data": {"a": "aHVudGVyMg=="},
    }
    assert masked(secret) == {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "x"},
    }
    config = {**secret, "kind": "ConfigMap"}
    assert "data" not in masked(config)
    ours = {**config, "metadata": {"name": "x", "labels": {"groundcrew.dev/part": "policy"}}}
    assert masked(ours)["data"] == {"a": "aHVudGVyMg=="}
    listed = {"kind": "SecretList", "apiVersion": "v1", "items": [{"metadata": {"name": "x"},
              "data": {"a": "b"}}], "metadata": {"continue": "abc"}}  # fmt: skip
    assert masked(listed)["items"] == [{"metadata": {"name": "x"}}]


def test_what_is_said_of_pods_is_left_out_and_what_is_said_of_nodes_is_kept() -> None:
    event = {"kind": "Event", "metadata": {"name": "e"}, "message": "Xid 79", "reason": "r"}
    about = {"kind": "Node", "name": "gpu-01"}
    assert masked({**event, "involvedObject": about})["message"] == "Xid 79"
    assert "message" not in masked({**event, "involvedObject": {**about, "kind": "Pod"}})


# identities


def test_with_identities_machines_and_workloads_are_others_and_joins_still_work() -> None:
    mask = masker(identities=True)
    provider = "aws:///us-east-1a/i-0123456789abcdef0"
    node = mask.object(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "gpu-01", "labels": {"kubernetes.io/hostname": "gpu-01"}},
            "spec": {"providerID": provider},
        }
    )
    pod = mask.object(POD)
    alert = json.loads(
        mask.body(
            json.dumps(
                {
                    "labels": {"node": "gpu-01", "namespace": "research", "pod": "llama-0"},
                    "annotations": {"summary": "gpu-01 (i-0123456789abcdef0) is hot"},
                }
            ).encode()
        )
    )
    name = node["metadata"]["name"]
    instance = node["spec"]["providerID"].rpartition("/")[2]
    assert name != "gpu-01"
    assert name == node["metadata"]["labels"]["kubernetes.io/hostname"] == pod["spec"]["nodeName"]
    assert alert["labels"] == {
        "node": name,
        "namespace": pod["metadata"]["namespace"],
        "pod": pod["metadata"]["name"],
    }
    assert alert["annotations"]["summary"] == f"{name} ({instance}) is hot"
    assert len(instance) == 19
    assert instance != "i-0123456789abcdef0"
    assert pod["metadata"]["name"].endswith("-0")
    headers = mask.headers(
        {
            "ce-kind": "Node",
            "ce-name": "gpu-01",
            "ce-subject": "/apis/v1/namespaces//nodes/gpu-01",
            "ce-namespace": "",
        }
    )
    assert headers["ce-name"] == name
    assert headers["ce-subject"] == f"/apis/v1/namespaces//nodes/{name}"
    everything = json.dumps([node, pod, alert, headers])
    for gone in ("gpu-01", "research", "llama", "0123456789abcdef0", "red"):
        assert gone not in everything


def test_every_recorded_event_means_the_same_once_it_is_masked() -> None:
    """Who it is about, what is wrong and how bad it is: personal fields decide nothing."""
    mask = masker()
    compared = 0
    for file in sorted(RECORDED.glob("*/*.json")):
        if file.name.endswith(recording.EXPECTED_SUFFIX):
            continue
        loaded = recording.load(file.read_bytes())
        if file.stem == "not_utf_8":
            continue  # no text, so nothing of it is kept
        before = _meaning(loaded)
        after = _meaning(
            Recording(
                path=mask.path(loaded.path),
                headers=mask.headers(loaded.headers),
                body=_bytes(mask.body(loaded.body)),
            )
        )
        assert after == before, file
        compared += 1
    assert compared > 100


def _bytes(kept: bytes | str) -> bytes:
    return kept if isinstance(kept, bytes) else kept.encode()


def _meaning(loaded: Recording) -> Any:
    try:
        reading = recording.understand(loaded)
    except Exception as problem:  # noqa: BLE001 - whatever it is, it is to stay the same
        return type(problem).__name__
    return bool(reading.declined), [
        (n.kind, n.severity, n.cause, n.check, n.deadline, n.since, n.latched, _who(n.identity))
        for n in reading.notices
    ]


def _who(identity: Identity) -> Identity:
    return msgspec.structs.replace(identity, account="")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("version: 2", "missing required field"),
        ("{", "no rules for masking"),
        ("texts: 1", "no rules for masking"),
    ],
)
def test_rules_that_are_none_are_refused(text: str, problem: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    with pytest.raises(MaskingError, match=problem):
        masking_rules.load(file)


def test_a_pattern_that_is_none_is_named(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    own = Path("infra/local/masking.yaml").read_text()
    file.write_text(own.replace("texts:\n", "texts:\n  - {as: mail, pattern: '('}\n"))
    with pytest.raises(MaskingError, match=r"texts\[0\]\.pattern"):
        masking_rules.load(file)
    file.write_text(own.replace("texts:\n", "texts:\n  - {as: name, pattern: 'x'}\n"))
    with pytest.raises(MaskingError, match=r"texts\[0\]\.as: 'name' is none of"):
        masking_rules.load(file)
