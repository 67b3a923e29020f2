"""The source passes the conformance kit on a real broker."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

import pytest
from hypothesis import strategies as st

from replicator_sdk.testing.histories.history import History, Step
from replicator_sdk.testing.source_suite import SourceConformance
from tests.plugins.sources.kafka.harness.simulated_database import KafkaShop
from tests.services.kafka.broker import KafkaBroker


def _without_defaults(history: History) -> History:
    """The same, but added columns are NULL in existing rows."""
    transactions = (
        tuple(
            Step(step.kind, step.table, {**step.facts, "default": None}) if step.kind == "add_column" else step
            for step in transaction
        )
        for transaction in history.transactions
    )
    return replace(history, transactions=tuple(transactions))


class _Conformance(SourceConformance):
    has_snapshots = False  # a connector's snapshot is in the topic
    alters_come_with_the_next_change = True  # columns are known from records only
    leaves_numbers_out = True  # compaction and retention delete records: what is left keeps its numbers
    supports_drop_column = False  # partitions switch at different moments: a column that is missing proves nothing
    supports_rename_column = False  # looks like one dropped and one added
    supports_retype_column = False  # the kit's producer writes no such change
    supports_change_key = False
    unsupported_types = frozenset({"record"})  # Debezium's connectors have no such columns
    skipped_cases: ClassVar = {
        "add_column_in_transaction": "records do not contain the default of the column for existing rows",
    }
    random_histories = 5

    def _any_history(self) -> st.SearchStrategy[History]:
        return super()._any_history().map(_without_defaults)


class TestOnePartition(_Conformance):
    @pytest.fixture
    def system(self, kafka: KafkaBroker) -> Iterator[KafkaShop]:
        shop = KafkaShop(kafka)
        yield shop
        shop.close()


class TestThreePartitions(_Conformance):
    supports_truncate = False  # the record that empties a table has no order against those of other partitions

    @pytest.fixture
    def system(self, kafka: KafkaBroker) -> Iterator[KafkaShop]:
        shop = KafkaShop(kafka, partitions=3)
        yield shop
        shop.close()
