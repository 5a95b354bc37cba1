"""The calls to AWS, against its emulation."""

from collections.abc import Iterator
from typing import Any

import pytest
from botocore import xform_name

from events.sources.autoscaling import Lifecycle
from functions.gateways.aws import errors
from functions.gateways.aws.client import Aws
from functions.gateways.aws.types import Machine
from tests.support import aws as cloud
from tests.support.aws import ACCOUNT, REGION, Held

ELSEWHERE = "eu-west-1"
ACTION = Lifecycle("11111111-2222-3333-4444-555555555555", "drain", "gpus")
NOBODY = "i-0123456789abcdef0"


@pytest.fixture(scope="module")
def held() -> Iterator[Held]:
    with pytest.MonkeyPatch.context() as patch, cloud.mocked(patch) as held:
        yield held


@pytest.fixture(scope="module")
def aws(held: Held) -> Aws:
    return Aws(seconds=0.0)


def at(instance_id: str, region: str = REGION) -> Machine:
    return Machine(instance_id, region)


def test_an_instance_is_described_with_who_owns_it_and_where_it_is(aws: Aws) -> None:
    (one,) = cloud.instances(InstanceType="p5.48xlarge")
    found = aws.instance(at(one))
    assert found is not None
    assert (found.account, found.state, found.kind) == (ACCOUNT, "running", "p5.48xlarge")
    assert found.provider_id == f"aws:///{found.zone}/{one}"
    assert Machine.of(found.provider_id).region == REGION


def test_an_unknown_instance_hides_none_of_the_others(aws: Aws) -> None:
    known = cloud.instances(3)
    assert set(aws.instances(REGION, [NOBODY, *known])) == set(known)


def test_more_instances_than_one_call_takes_are_all_described(aws: Aws) -> None:
    known = cloud.instances(101)
    assert set(aws.instances(REGION, known)) == set(known)


def test_an_instance_is_looked_for_in_its_own_region_only(aws: Aws) -> None:
    (there,) = cloud.instances(region=ELSEWHERE)
    assert aws.instance(at(there)) is None
    assert aws.instance(at(there, ELSEWHERE)) is not None


def test_statuses_come_for_those_that_are_known_beside_one_that_is_not(aws: Aws) -> None:
    known = cloud.instances(2)
    pages = list(aws.statuses(REGION, [NOBODY, *known]))
    assert {s["InstanceId"] for page in pages for s in page["InstanceStatuses"]} == set(known)


def test_of_nobody_known_there_is_no_status(aws: Aws) -> None:
    assert list(aws.statuses(REGION, [NOBODY])) == []


def test_a_terminated_instance_is_terminated_once(aws: Aws) -> None:
    (one,) = cloud.instances()
    assert aws.terminate(at(one)) in ("shutting-down", "terminated")
    with pytest.raises(errors.AlreadyTerminating, match=one):
        aws.terminate(at(one))


def test_an_instance_that_is_protected_is_said_to_be(aws: Aws) -> None:
    (one,) = cloud.instances()
    cloud.client("ec2").modify_instance_attribute(
        InstanceId=one, DisableApiTermination={"Value": True}
    )
    with pytest.raises(errors.Protected, match="disableApiTermination"):
        aws.terminate(at(one))
    assert cloud.state(one) == "running"


def test_who_is_not_there_is_not_found(aws: Aws) -> None:
    for act in (aws.terminate, aws.reboot, aws.terminate_in_group):
        with pytest.raises(errors.NotFound, match=NOBODY):
            act(at(NOBODY))


def test_an_instance_is_rebooted(aws: Aws) -> None:
    (one,) = cloud.instances()
    aws.reboot(at(one))
    assert cloud.state(one) == "running"


def test_a_group_keeps_its_size_when_one_of_it_is_terminated(aws: Aws) -> None:
    first, second = cloud.group("pair", size=2)
    assert aws.scaling_instances(REGION, [first, NOBODY])[first].group == "pair"
    aws.terminate_in_group(at(first))
    left = cloud.members("pair")
    assert len(left) == 2
    assert first not in left
    assert second in left
    assert aws.groups(REGION, ["pair", "none"])["pair"].desired == 2


def test_a_hook_says_how_long_it_holds(aws: Aws) -> None:
    cloud.group()
    cloud.client("autoscaling").put_lifecycle_hook(
        LifecycleHookName="drain",
        AutoScalingGroupName="gpus",
        LifecycleTransition="autoscaling:EC2_INSTANCE_TERMINATING",
        HeartbeatTimeout=600,
        DefaultResult="CONTINUE",
    )
    (hook,) = aws.hooks(REGION, "gpus")
    assert (hook.name, hook.heartbeat_seconds, hook.default_result) == ("drain", 600, "CONTINUE")
    assert hook.global_seconds == 172_800


def test_a_lifecycle_action_is_held_and_then_completed_once(aws: Aws, held: Held) -> None:
    (one,) = cloud.instances()
    held.actions[one] = ACTION
    held.told.clear()
    aws.heartbeat(at(one), ACTION)
    aws.complete(at(one), ACTION, "CONTINUE")
    assert held.told == [(one, "heartbeat"), (one, "CONTINUE")]
    with pytest.raises(errors.NotFound, match="No active Lifecycle Action"):
        aws.complete(at(one), ACTION, "CONTINUE")
    with pytest.raises(errors.NotFound, match="No active Lifecycle Action"):
        aws.heartbeat(at(one), ACTION)


@pytest.mark.parametrize("operation", ["CompleteLifecycleAction", "RecordLifecycleActionHeartbeat"])
def test_what_the_emulation_lacked_answers_as_the_model_says(held: Held, operation: str) -> None:
    (one,) = cloud.instances()
    held.actions[one] = ACTION
    given = {
        "AutoScalingGroupName": ACTION.group,
        "LifecycleHookName": ACTION.hook,
        "InstanceId": one,
    }
    if operation == "CompleteLifecycleAction":
        given["LifecycleActionResult"] = "ABANDON"
    answer = getattr(cloud.client("autoscaling"), xform_name(operation))(**given)
    assert answer.pop("ResponseMetadata")["HTTPStatusCode"] == 200
    cloud.checked("autoscaling", operation, answer)


def test_a_machine_of_another_account_is_none_of_ours(aws: Aws) -> None:
    aws.check_account(ACCOUNT, REGION)
    aws.check_account("", REGION)
    with pytest.raises(errors.WrongAccount, match=f"999999999999.*{ACCOUNT}"):
        aws.check_account("999999999999", REGION)


def test_a_region_that_is_not_ours_is_sent_nothing(held: Held) -> None:
    (there,) = cloud.instances(region=ELSEWHERE)
    with pytest.raises(errors.WrongRegion, match=f"{REGION}, not for {ELSEWHERE}"):
        Aws(regions=[REGION]).terminate(at(there, ELSEWHERE))
    assert cloud.state(there, ELSEWHERE) == "running"


def test_spot_requests_are_told_of_the_instances_that_are_asked_for(aws: Aws) -> None:
    ec2 = cloud.client("ec2")
    ec2.request_spot_instances(LaunchSpecification={"ImageId": cloud.image()}, InstanceCount=2)
    made: list[Any] = ec2.describe_spot_instance_requests()["SpotInstanceRequests"]
    wanted = made[0]["InstanceId"]
    (page,) = aws.spot_requests(REGION, [wanted])
    assert [r["InstanceId"] for r in page["SpotInstanceRequests"]] == [wanted]
