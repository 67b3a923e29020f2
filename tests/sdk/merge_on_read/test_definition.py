"""A definition of a merge-on-read table is checked, and kept as table properties."""

from __future__ import annotations

import subprocess
import sys

import pytest

from replicator_sdk.errors import NeedsUserError
from replicator_sdk.merge_on_read import MergeOnReadDefinition

COLUMNS = {"id": "int", "ts": "timestamp", "gone": "string", "flag": "boolean", "tags": "array<int>"}


def test_properties_give_the_definition_back() -> None:
    definition = MergeOnReadDefinition(("id", "a,b"), ("ts", "é"), "gone", "it's \\ gone")
    properties = definition.to_properties()
    assert properties["tombstone_string_key_value"] == "it's \\ gone"
    assert MergeOnReadDefinition.from_properties({**properties, "other": "x"}) == definition


@pytest.mark.parametrize(
    ("primary", "watermark", "tombstone", "value"),
    [
        ((), ("ts",), None, None),
        (("id",), (), None, None),
        (("id", "id"), ("ts",), None, None),
        (("id",), ("id",), None, None),
        (("id",), ("ts",), "id", None),
        (("id",), ("ts",), "ts", None),
        (("id",), ("ts",), None, "x"),
        (("id",), ("none",), None, None),
        (("ID",), ("ts",), None, None),
        (("id",), ("tags",), None, None),
        (("id",), ("ts",), "tags", None),
        (("tags",), ("ts",), None, None),
        (("id",), ("ts",), "flag", "x"),
    ],
)
def test_a_wrong_definition_is_refused(
    primary: tuple[str, ...], watermark: tuple[str, ...], tombstone: str | None, value: str | None
) -> None:
    with pytest.raises(NeedsUserError) as raised:
        MergeOnReadDefinition(primary, watermark, tombstone, value).check(COLUMNS)
    assert raised.value.code == "RPL-1901"


@pytest.mark.parametrize("text", ["id", "{}", "[1]"])
def test_damaged_properties_are_refused(text: str) -> None:
    with pytest.raises(NeedsUserError):
        MergeOnReadDefinition.from_properties({"primary_key": text, "watermark_key": '["ts"]'})


def test_the_package_is_imported_without_pyspark() -> None:
    code = "import sys, replicator_sdk.merge_on_read; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
