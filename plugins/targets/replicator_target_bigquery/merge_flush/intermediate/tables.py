"""Intermediate tables: each name is used once, and labels name the owner, so that no other program's table is removed.

A name that is used again could lose rows: BigQuery drops some that are streamed into a table that was deleted and created
again. So each name has a UUID, and a table is replaced rather than altered (docs/seeds.md#000-bigquery).
"""

from __future__ import annotations

import re
import threading
import time
import uuid
from dataclasses import dataclass, replace
from typing import Any, Final

from replicator_sdk.context import Metrics
from replicator_sdk.schema import TableId, TableSchema
from replicator_target_bigquery.merge_flush.intermediate.key_column import key_field
from replicator_target_bigquery.merge_flush.intermediate.rows import BATCH_NUMBER, KEY, PARTITION_TIME, VALUE, I
from replicator_target_bigquery.schema.fields import Field
from replicator_target_bigquery.schema.names import table_name
from replicator_target_bigquery.schema.width import require_width
from replicator_target_bigquery.sql.table_ref import TableRef
from replicator_target_bigquery.sql.text import name
from replicator_target_bigquery.tables.owner_label import OWNER, digest
from replicator_target_bigquery.tables.target_table import TargetTable

OF_TABLE: Final = "replicator-table"
EPOCH: Final = "replicator-epoch"
_LONGEST: Final = (600, 100)
_DROP_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class IntermediateTable:
    """One intermediate table.

    Attributes:
        ref: The destination.
        table: Its name, in the destination's dataset.
        schema: The schema of its values.
    """

    ref: TableRef
    table: str
    schema: TableSchema

    @property
    def sql(self) -> str:
        """The table in a statement."""
        return name(self.ref.project, self.ref.dataset, self.table)

    @property
    def id(self) -> str:
        """The table as Google's client takes it."""
        return f"{self.ref.project}.{self.ref.dataset}.{self.table}"

    @property
    def path(self) -> str:
        """The table as the Storage Write API takes it."""
        return replace(self.ref, table=self.table).path


def intermediate_fields(key: Field, value: tuple[Field, ...]) -> tuple[Field, ...]:
    """The columns of an intermediate table, from the key's and the value's."""
    return (
        Field(KEY, "STRUCT", fields=key.fields),
        Field(VALUE, "STRUCT", fields=value),
        Field(PARTITION_TIME, "TIMESTAMP"),
        Field(I, "INT64", "REQUIRED"),
        Field(BATCH_NUMBER, "INT64", "REQUIRED"),
    )


class IntermediateTables:
    """Creates and drops the intermediate tables of a run. Safe from several threads."""

    def __init__(self, client: Any, metrics: Metrics) -> None:
        self._client = client
        self._metrics = metrics
        self._there: dict[str, list[str]] = {}
        self._lock = threading.Lock()
        self._began = time.time_ns() // 1_000_000  # part of names, so that people see how old a table is

    def create(self, table: TargetTable, schema: TableSchema, value: tuple[Field, ...]) -> IntermediateTable:
        """Create one for `table` with values of the columns `value`; those that earlier runs left for it are dropped first."""
        from google.cloud import bigquery

        session = table.session
        config = session.config
        self.remove_orphans(table)
        made = IntermediateTable(table.ref, self._name(table), schema)
        key = key_field(schema, config.kafka_key_field_name)
        fields = intermediate_fields(key, value)
        require_width(fields, "the intermediate table", table.table)
        definition = session.catalogue.definition(made.id, fields)
        definition.time_partitioning = bigquery.TimePartitioning(type_="DAY")
        definition.labels = {**config.labels, **_labels(table), EPOCH: str(session.context.epoch)}
        session.catalogue.create(definition, table.table)
        return made

    def drop(self, made: IntermediateTable, of: TableId) -> None:
        """Drop one; what cannot be dropped now is left to the next run."""
        from google.api_core.exceptions import GoogleAPICallError

        try:
            self._client.delete_table(made.id, not_found_ok=True, retry=None, timeout=_DROP_SECONDS)
        except (GoogleAPICallError, OSError):
            self._metrics.count("bigquery.tables_left", table=of)

    def _name(self, table: TargetTable) -> str:
        """`_${dest}_${suffix}_${task}_${uuid}_${epoch}`; the task is the replicator."""
        session, (dest, task) = table.session, _LONGEST
        parts = (
            table.ref.table[:dest],
            session.config.intermediate_table_suffix,
            table_name(session.context.replicator_name)[:task],
            uuid.uuid4().hex,
            str(self._began),
        )
        return "_" + "_".join(parts)

    def remove_orphans(self, table: TargetTable) -> None:
        """Drop the intermediate tables of earlier runs for `table`, which can commit nothing since this run has claimed it.

        Labels name the owner, so that a table with another suffix is found too; a copy that an operator made of one has
        no such name. A run that lost the table to a higher epoch cannot merge any more, even if it still streams.
        """
        session, ref = table.session, table.ref
        epoch = session.context.epoch
        if table.state().epoch != epoch:
            return  # not claimed yet: no run has written it
        named = re.compile(re.escape(f"_{ref.table[: _LONGEST[0]]}_") + r"[A-Za-z0-9_]+_[0-9a-f]{32}_[0-9]+")
        dataset = f"{ref.project}.{ref.dataset}"
        for left in filter(named.fullmatch, self._tables_in(dataset, table)):
            labels = self._labels_of(f"{dataset}.{left}", table)
            ours = all(labels.get(k) == v for k, v in _labels(table).items())
            if ours and labels.get(EPOCH, "").isdigit() and int(labels[EPOCH]) < epoch:
                self.drop(IntermediateTable(ref, left, _NOTHING), table.table)
                self._metrics.count("bigquery.orphans_removed", table=table.table)

    def _tables_in(self, dataset: str, table: TargetTable) -> list[str]:
        """The tables of the dataset, listed once a run: earlier runs created theirs before that."""
        with self._lock:
            if dataset not in self._there:
                self._there[dataset] = table.session.jobs.request(
                    f"looking for tables that earlier runs left in {dataset}",
                    table.table,
                    lambda: [t.table_id for t in self._client.list_tables(dataset, retry=None)],
                    place=dataset,
                )
            return self._there[dataset]

    def _labels_of(self, table_id: str, table: TargetTable) -> dict[str, str]:
        from google.api_core.exceptions import NotFound

        def ask() -> dict[str, str]:
            try:
                return dict(self._client.get_table(table_id, retry=None).labels)
            except NotFound:
                return {}

        found: dict[str, str] = table.session.jobs.request(f"looking at {table_id}", table.table, ask, place=table_id)
        return found


_NOTHING: Final = TableSchema(TableId("", ""), ())


def _labels(table: TargetTable) -> dict[str, str]:
    """The owner of an intermediate table, and its destination; digests, since labels are short."""
    return {OWNER: digest(table.session.owner), OF_TABLE: digest(table.ref.id)}
