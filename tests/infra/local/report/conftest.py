from pathlib import Path

import pytest

from infra.local.report import model, page
from tests.support.reports import record

SCENARIO = Path(__file__).with_name("one-of-each.yaml")


@pytest.fixture(scope="session")
def run() -> model.Run:
    return record(SCENARIO)


@pytest.fixture(scope="session")
def html(run: model.Run) -> str:
    return page.render([run])
