"""SQS and EC2 for both sides: an emulation (moto) in a process of its own."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.controlplane.access import eventually
from tests.controlplane.ports import free_ports
from tests.support import aws

MANAGED = "aws-node-termination-handler/managed"
"""The tag without which NTH leaves an instance alone (its default)."""
ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_REGION": aws.REGION,
    "AWS_DEFAULT_REGION": aws.REGION,
    "AWS_EC2_METADATA_DISABLED": "true",
}
_A_CALL = 10


class Cloud:
    def __init__(self, endpoint: str) -> None:
        import boto3

        self.endpoint = endpoint
        session = boto3.Session(
            ENVIRONMENT["AWS_ACCESS_KEY_ID"], ENVIRONMENT["AWS_SECRET_ACCESS_KEY"],
            region_name=aws.REGION,
        )  # fmt: skip
        self._sqs: Any = session.client("sqs", endpoint_url=endpoint)
        self._ec2: Any = session.client("ec2", endpoint_url=endpoint)
        self._image = self._ec2.describe_images(Owners=["amazon"])["Images"][0]["ImageId"]

    def queue(self, name: str) -> str:
        return str(self._sqs.create_queue(QueueName=name)["QueueUrl"])

    def machines(self, count: int) -> list[tuple[str, str]]:
        """ID and private DNS name of each of ``count`` new instances."""
        tags = [{"Key": MANAGED, "Value": "true"}]
        made = self._ec2.run_instances(
            ImageId=self._image, InstanceType="p5.48xlarge", MinCount=count, MaxCount=count,
            Placement={"AvailabilityZone": f"{aws.REGION}a"},
            TagSpecifications=[{"ResourceType": "instance", "Tags": tags}],
        )  # fmt: skip
        return [(one["InstanceId"], one["PrivateDnsName"]) for one in made["Instances"]]

    def interrupt(self, queue: str, machines: Sequence[str]) -> dict[str, float]:
        """Put a spot interruption of each of ``machines`` (instance IDs) into the queue; returns
        when each was sent, by the monotonic clock."""
        sent: dict[str, float] = {}
        bodies = [aws.spot(machine) for machine in machines]
        for start in range(0, len(bodies), _A_CALL):
            some = bodies[start : start + _A_CALL]
            now = time.monotonic()
            sent |= dict.fromkeys(machines[start : start + _A_CALL], now)
            answer = self._sqs.send_message_batch(
                QueueUrl=queue,
                Entries=[{"Id": str(n), "MessageBody": body} for n, body in enumerate(some)],
            )
            assert not answer.get("Failed"), answer["Failed"]
        return sent


@contextmanager
def cloud(folder: Path) -> Iterator[Cloud]:
    """The emulation, up and asked for nothing yet; its log goes into ``folder``."""
    [port] = free_ports(1)
    with (folder / "moto.log").open("wb") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
            stdout=log, stderr=log, env=os.environ | ENVIRONMENT,
        )  # fmt: skip
        try:
            eventually(lambda: listens(port), "moto answers", 60)
            yield Cloud(f"http://127.0.0.1:{port}")
        finally:
            server.kill()
            server.wait()


def listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1.0).close()
    except OSError:
        return False
    return True
