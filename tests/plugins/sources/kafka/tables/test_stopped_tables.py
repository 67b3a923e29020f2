"""A table whose records do not fit stops; the tables of other topics, and of the same one, go on at every later run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from replicator_sdk.datatype import INT64
from replicator_sdk.errors import ReplicatorError
from replicator_sdk.schema import Column
from tests.plugins.sources.kafka.harness.delta_copy import DeltaCopy
from tests.plugins.sources.kafka.harness.source_runs import inserts, orders
from tests.services.kafka.broker import KafkaBroker
from tests.services.kafka.fixtures import MakeTopic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize("distributed", [True, False])
@pytest.mark.parametrize("in_one_topic", [True, False])
def test_a_type_that_changes_in_a_refused_way_stops_that_table_only(
    tmp_path: Path,
    spark: SparkSession,
    kafka: KafkaBroker,
    kafka_topic: MakeTopic,
    *,
    distributed: bool,
    in_one_topic: bool,
) -> None:
    topics = [kafka_topic(1)] if in_one_topic else [kafka_topic(1), kafka_topic(1)]
    other = topics[-1]
    copy = DeltaCopy(tmp_path, spark, kafka, topics=topics, distributed=distributed)
    kafka.produce(topics[0], inserts([1]))
    kafka.produce(other, inserts([1], orders("others")))
    copy.run()

    changed = replace(orders(), columns=(orders().columns[0], Column("note", INT64)))
    kafka.produce(topics[0], inserts([2], changed, note=2))
    for number in (2, 3, 4):
        kafka.produce(other, inserts([number], orders("others")))
        with pytest.raises(ReplicatorError, match="RPL-3921"):
            copy.run()
        assert copy.notes("others") == [(n, f"n{n}") for n in range(1, number + 1)]
        assert copy.notes() == [(1, "n1")]
