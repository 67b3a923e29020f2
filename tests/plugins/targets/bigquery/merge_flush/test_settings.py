"""Settings of mode merge-flush: names, defaults and exclusions of docs/seeds.md#000-bigquery."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from replicator_target_bigquery.config import BigQueryConfig

NEEDED: dict[str, object] = {"project": "p", "stagingBucket": "b"}
MERGES: dict[str, object] = {"mode": "merge-flush", "upsertEnabled": True, "kafkaKeyFieldName": "k"}


def config(**given: object) -> BigQueryConfig:
    return BigQueryConfig.model_validate({**NEEDED, **given})


def test_defaults_are_the_seeds() -> None:
    made = config(mode="merge-flush")
    assert (made.upsert_enabled, made.delete_enabled) == (False, False)
    assert (made.merge_interval_ms, made.merge_records_threshold) == (60000, -1)
    assert made.intermediate_table_suffix == "_tmp"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"mode": "merge-flush", "upsertEnabled": True}, "kafkaKeyFieldName"),
        ({"mode": "merge-flush", "deleteEnabled": True}, "kafkaKeyFieldName"),
        ({**MERGES, "mergeIntervalMs": -1}, "both -1"),
        ({**MERGES, "mergeIntervalMs": 0}, "1 or more"),
        ({**MERGES, "mergeRecordsThreshold": 0}, "1 or more"),
        ({**MERGES, "mergeIntervalMs": -2}, "greater than or equal"),
        ({**MERGES, "timestampPartitionFieldName": "t", "bigQueryPartitionDecorator": True}, "exclude each other"),
        ({**MERGES, "useMessageTimeDatePartitioning": True}, "needs bigQueryPartitionDecorator"),
        ({"mode": "merge-flush", "bigQueryPartitionDecorator": True}, "needs upsertEnabled or deleteEnabled"),
        ({**MERGES, "kafkaKeyFieldName": "a b"}, "letters, digits"),
        ({**MERGES, "kafkaKeyFieldName": "_sequence_num"}, "must not be"),
        ({**MERGES, "softDeletes": True}, "softDeletes needs deleteEnabled"),
        ({"mode": "merge-flush", "softDeletes": True}, "softDeletes needs deleteEnabled"),
        ({**MERGES, "partitionBy": {"a.b": "c"}}, "partitionBy"),
        ({**MERGES, "requirePartitionFilter": True}, "requirePartitionFilter"),
        ({**MERGES, "intermediateTableSuffix": "a-b"}, "pattern"),
        ({"mode": "merge-flush", "useStorageWriteApi": False}, "would double rows"),
        ({"mode": "merge-flush", "useDefaultStream": True}, "default stream would double rows"),
        ({**MERGES, "useDefaultStream": True, "useStorageWriteApi": False}, "needs useStorageWriteApi"),
        ({"useDefaultStream": True}, "mode merge-flush only"),
        ({"upsertEnabled": True}, "mode merge-flush only"),
        ({"mergeIntervalMs": 5}, "mode merge-flush only"),
        ({"kafkaKeyFieldName": "k"}, "mode merge-flush only"),
    ],
)
def test_settings_that_exclude_each_other_are_refused(given: dict[str, object], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        config(**given)


def test_settings_that_fit_together_are_accepted() -> None:
    made = config(**MERGES, mergeIntervalMs=-1, mergeRecordsThreshold=10, bigQueryPartitionDecorator=True)
    assert made.merges
    assert config(**MERGES, timestampPartitionFieldName="t", requirePartitionFilter=True).merges
    assert not config(mode="merge-flush").merges
    assert config(**MERGES, deleteEnabled=True, softDeletes=True).merges
    assert config(**{**MERGES, "upsertEnabled": False}, deleteEnabled=True, softDeletes=True).merges
