"""What a test starts is over when it is."""

import sys

import pytest

from tests.support.processes import running


def test_a_process_is_over_when_its_test_fails() -> None:
    with (
        pytest.raises(ZeroDivisionError),
        running([sys.executable, "-c", "import time; time.sleep(9)"]) as process,
    ):
        raise ZeroDivisionError
    assert process.returncode == -9
