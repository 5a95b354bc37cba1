"""What a command waits for before it does anything: the modules that are loaded.

Told by what is loaded and not by seconds, which would depend on the machine. A drain of 110 pods
with 30 s of grace has 0.2 s to begin and to end; `groundcrew drain` began after 0.44 s once.
"""

import json
import subprocess
import sys
from functools import cache

import pytest

OTHERS = {
    "aiohttp", "boto3", "botocore", "cloudevents", "croniter", "flask", "kubernetes", "oauthlib",
    "pydantic", "requests", "rich", "shtab", "starlette", "uvicorn",
}  # fmt: skip
"""Packages of which none is needed to empty a node of a cluster with a plain kubeconfig."""
RULES = {"functions.rules.cordoning", "functions.rules.replacing", "functions.gateways.aws.client"}
"""What belongs to other functions, and is most of our own code."""
WIRE = {"msgspec", "yaml", "ssl", "urllib3"}
"""What is needed to ask a cluster, and not to say how a command is called."""

SCRIPT = """
import json, sys
from infra.cli import parser
parser("")
told = {"help": list(sys.modules)}
parser("drain")
told["drain --help"] = list(sys.modules)
from functions.gateways.kubernetes import plain
import urllib3, yaml
from infra.cli import drain_before, drain_report, drain_screen, drain_work
told["drain"] = list(sys.modules)
parser("status"), parser("explain"), parser("notices"), parser("uncordon")
told["other commands"] = list(sys.modules)
print(json.dumps(told))
"""


@cache
def loaded() -> dict[str, set[str]]:
    told = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True, timeout=60
    )
    return {step: set(modules) for step, modules in json.loads(told.stdout).items()}


@pytest.mark.parametrize("step", ["help", "drain --help", "drain", "other commands"])
def test_nothing_is_loaded_that_only_others_need(step: str) -> None:
    assert sorted((OTHERS | RULES) & loaded()[step]) == []


def test_help_loads_nothing_that_speaks_to_a_cluster() -> None:
    assert sorted(WIRE & loaded()["help"]) == []


def test_the_help_of_drain_loads_no_connection_and_no_policy() -> None:
    useless = {"urllib3", "ssl", "yaml", "zoneinfo", "functions.rules.policy"}
    assert sorted(useless & loaded()["drain --help"]) == []
