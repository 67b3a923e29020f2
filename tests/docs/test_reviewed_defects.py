"""`tests/reviewed_defects.md` names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

_TESTS = Path(__file__).parents[1]
_FOLDERS = {
    "pg": _TESTS / "plugins/sources/postgres",
    "my": _TESTS / "plugins/sources/mysql",
    "ka": _TESTS / "plugins/sources/kafka",
    "de": _TESTS / "plugins/targets/delta",
    "bq": _TESTS / "plugins/targets/bigquery",
    "e": _TESTS / "runtime/engine",
    "rt": _TESTS / "runtime",
    "e2": _TESTS / "end_to_end",
    "cr": _TESTS / "crash",
    "st": _TESTS / "state",
    "sd": _TESTS / "sdk",
    "dc": _TESTS / "docs",
    "kit": _TESTS.parent / "sdk/replicator_sdk/testing",
}
_ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (_TESTS / "reviewed_defects.md").read_text().splitlines()
    if re.match(r"\| (\d+|[RS]\d|C) \|", line)
]


def test_every_defect_has_a_row() -> None:
    numbers = {row[0] for row in _ROWS}
    assert {str(number) for number in range(56)} - {"21", "22", "23", "24"} <= numbers
    assert len(numbers) == len(_ROWS)


@pytest.mark.parametrize("row", [row for row in _ROWS if row[2] != "—"], ids=lambda row: row[0])
def test_the_test_of_a_defect_exists(row: list[str]) -> None:
    path, name = row[2].split("::")
    folder, _, rest = path.partition("/")
    file = _FOLDERS[folder] / f"{rest}.py"
    assert file.is_file()
    found = name.partition("[")[0]
    places = [file, *_FOLDERS["kit"].rglob("*.py")] if folder == "kit" else [file]
    assert any(re.search(rf"def {re.escape(found)}\b", place.read_text()) for place in places)
