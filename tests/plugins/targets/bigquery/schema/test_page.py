"""docs/target-bigquery.md has the BigQuery type of each standard type."""

from __future__ import annotations

import re
from pathlib import Path

from replicator_sdk.datatype import parse_type
from replicator_target_bigquery.schema.fields import Forms, field_of

PAGE = (Path(__file__).parents[5] / "docs" / "target-bigquery.md").read_text()


def test_types_become_what_the_page_says() -> None:
    section = PAGE.split("## Types", 1)[1].split("\n## ", 1)[0]
    found = re.findall(r"^\| (`.+`) \| (.+) \|$", section, re.MULTILINE)
    pairs = [(kind, target) for kinds, target in found for kind in re.findall(r"`([^`]+)`", kinds)]
    assert len(pairs) > 15
    assert {kind: field_of("c", parse_type(kind), forms=Forms(native_arrays=True)).sql for kind, _ in pairs} == dict(
        pairs
    )
