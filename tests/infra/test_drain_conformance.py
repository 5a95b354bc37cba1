"""The page about kubectl's drain and ours says what the rows say, and each row has a test."""

import ast
from pathlib import Path

from tests.controlplane.conformance import rows

FOLDER = Path(rows.__file__).parent


def shown() -> set[str]:
    """The rows that tests name, read without importing what those need."""
    found: set[str] = set()
    for file in FOLDER.glob("test_*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "shows":
                found |= {ast.literal_eval(arg) for arg in node.args}
    return found


def test_every_row_has_a_test_and_every_test_a_row() -> None:
    assert shown() == set(rows.ROWS)


def test_the_page_is_made_from_the_rows() -> None:
    """Make it anew with ``python -m tests.controlplane.conformance.rows``."""
    assert rows.DOCUMENT.read_text() == rows.document()
