"""Which instance in which region a provider ID names."""

import pytest

from functions.gateways.aws.types import Machine, NotOfEc2


@pytest.mark.parametrize(
    ("zone", "region"),
    [
        ("us-east-1a", "us-east-1"),
        ("us-gov-west-1b", "us-gov-west-1"),
        ("us-isob-east-1a", "us-isob-east-1"),
        ("ap-southeast-2c", "ap-southeast-2"),
        ("us-west-2-lax-1a", "us-west-2"),
        ("us-east-1-wl1-bos-wlz-1", "us-east-1"),
    ],
)
def test_the_zone_of_a_provider_id_names_its_region(zone: str, region: str) -> None:
    machine = Machine.of(f"aws:///{zone}/i-0123456789abcdef0")
    assert (machine.region, machine.zone) == (region, zone)
    assert machine.instance_id == "i-0123456789abcdef0"


@pytest.mark.parametrize(
    "provider_id",
    [
        "",
        "i-0123456789abcdef0",
        "aws:///us-east-1a/",
        "aws:///us-east-1a/i-0123/../i-0456",
        "aws:///us-east-1a/fargate-ip-10-0-0-1.ec2.internal",
        "aws:///nowhere/i-0123456789abcdef0",
        "gce://project/us-central1-a/gpu-1",
        "eks-hybrid:///us-east-1/cluster/mi-0123456789abcdef0",
    ],
)
def test_a_provider_id_that_names_no_ec2_instance_is_refused(provider_id: str) -> None:
    with pytest.raises(NotOfEc2):
        Machine.of(provider_id)


@pytest.mark.parametrize(("instance_id", "region"), [("i-0 ", "us-east-1"), ("i-0", "us-east-1a")])
def test_neither_a_zone_nor_another_word_passes_for_region_and_id(
    instance_id: str, region: str
) -> None:
    with pytest.raises(NotOfEc2):
        Machine(instance_id, region)
