"""What one test must not leave behind for the others."""

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    """Commands and servers set logging up for their whole process, also where a fixture of a whole
    file runs one. Here that would be a stream that the next test closes, and warnings that no
    later test sees."""
    root = logging.getLogger()
    handlers = root.handlers[:]
    _set_levels()
    yield
    root.handlers[:] = handlers
    _set_levels()


def _set_levels() -> None:
    logging.getLogger().setLevel(logging.WARNING)
    logging.getLogger("groundcrew").setLevel(logging.NOTSET)
