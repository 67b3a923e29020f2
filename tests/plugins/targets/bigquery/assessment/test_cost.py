"""The assessment says what merges bill at least."""

from __future__ import annotations

from replicator_target_bigquery.assessment.cost import merge_cost
from replicator_target_bigquery.config import BigQueryConfig

MERGING = {"mode": "merge-flush", "upsert_enabled": True, "kafka_key_field_name": "k", "merge_interval_ms": 60_000}


def config(**settings: object) -> BigQueryConfig:
    return BigQueryConfig.model_validate({"project": "p", "staging_bucket": "b", **settings})


def test_merges_a_day_and_their_least_bill_follow_from_the_interval() -> None:
    (found,) = merge_cost(config(load_interval=90))
    assert "960 times a day" in found.description
    assert "28.8 GB a day" in found.impact
    assert "`loadInterval`" in found.suggestion
    (streamed,) = merge_cost(config(**MERGING))
    assert ("1,440 times a day" in streamed.description, "`mergeIntervalMs`" in streamed.suggestion) == (True, True)


def test_nothing_is_said_where_no_interval_limits_the_merges() -> None:
    assert merge_cost(config(load_interval=0)) == []
    assert merge_cost(config(mode="cdc")) == []
    assert merge_cost(config(**MERGING | {"merge_interval_ms": -1, "merge_records_threshold": 10})) == []
