"""The assessment says how arrays and JSON arrive, and which columns keep an earlier form."""

from __future__ import annotations

from typing import Any

from replicator_sdk.datatype import JSON, STRING, Array
from replicator_sdk.schema import Column, replace_columns
from tests.plugins.targets.bigquery.support.changes import KEYED, batch, insert
from tests.plugins.targets.bigquery.support.project import Project
from tests.services.bigquery.emulators import Emulators

SCHEMA = replace_columns(KEYED, (KEYED["id"], Column("tags", Array(STRING)), Column("data", JSON)))


def assessed(project: Project) -> tuple[dict[str, tuple[str, str]], list[str]]:
    """Column → its type and note; and the messages of findings that a form is kept."""
    with project.target.create_table_assessor() as assessor:
        found = assessor.assess_table(SCHEMA)
    kept = [f.description for f in found.findings if f.name == "form_kept"]
    return {c.name: (c.target_type, c.note) for c in found.columns}, kept


def made(emulators: Emulators, **settings: Any) -> Project:
    return Project(emulators, **{"arrays": "native", **settings})


def test_the_assessment_says_how_null_in_arrays_arrives(bigquery_emulators: Emulators) -> None:
    columns, kept = assessed(made(bigquery_emulators, json_columns="json"))
    assert columns["tags"] == ("ARRAY<STRING>", "NULL becomes an empty array; an element that is NULL stops the table")
    assert columns["data"][0] == "JSON"
    lenient, _ = assessed(made(bigquery_emulators, out_of_range="null"))
    assert lenient["tags"][1] == "NULL becomes an empty array; elements that are NULL are left out"
    assert (lenient["data"][0], kept) == ("STRING", [])


def test_columns_that_keep_the_form_of_an_earlier_version_are_named(bigquery_emulators: Emulators) -> None:
    earlier = made(bigquery_emulators, arrays="wrapped")
    consumer = earlier.consumer()
    consumer.apply_batch(batch(1, [insert({"id": 1, "tags": ["a"], "data": None}, SCHEMA)]))
    consumer.stop()
    columns, kept = assessed(made(bigquery_emulators, dataset_name=earlier.dataset, json_columns="json"))
    assert columns["tags"] == ("STRUCT<`list` ARRAY<STRUCT<`element` STRING>>>", "elements are in `list[…].element`")
    assert kept == ["tags, data keep the form that they have in the table, not that of `arrays` and `json`"]
