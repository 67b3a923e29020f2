"""Intermediate tables: named as seed 000 says, so that no two were ever the same, and labelled, so that nobody else's is taken.

A table of that name that was there before could lose rows: BigQuery drops some that are streamed into a table deleted and made
again. So each has a UUID, and is made anew rather than altered.
"""

from __future__ import annotations

import hashlib
import re
import threading
import time
import uuid
from dataclasses import dataclass, replace
from typing import Any, Final

from replicator_sdk.context import Metrics
from replicator_sdk.schema import TableId, TableSchema
from replicator_target_bigquery.fields import Field
from replicator_target_bigquery.key_column import key_field
from replicator_target_bigquery.merge_flush.rows import BATCH_NUMBER, KEY, PARTITION_TIME, VALUE, I
from replicator_target_bigquery.names import table_name
from replicator_target_bigquery.place import Place
from replicator_target_bigquery.sql.text import name
from replicator_target_bigquery.table import TargetTable
from replicator_target_bigquery.warehouse import source_fields

OWNER: Final = "replicator-owner"
OF_TABLE: Final = "replicator-table"
EPOCH: Final = "replicator-epoch"
_LONGEST: Final = (600, 100)
_DROP_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class Intermediate:
    """One intermediate table.

    Attributes:
        place: The destination.
        table: Its name, in the destination's dataset.
        schema: What its values are.
    """

    place: Place
    table: str
    schema: TableSchema

    @property
    def sql(self) -> str:
        """The table in a statement."""
        return name(self.place.project, self.place.dataset, self.table)

    @property
    def id(self) -> str:
        """The table as Google's client takes it."""
        return f"{self.place.project}.{self.place.dataset}.{self.table}"

    @property
    def path(self) -> str:
        """The table as the Storage Write API takes it."""
        return replace(self.place, table=self.table).path


def intermediate_fields(key: Field, value: tuple[Field, ...]) -> tuple[Field, ...]:
    """The columns for a key and the columns of a value (seed 000)."""
    return (
        Field(KEY, "STRUCT", fields=key.fields),
        Field(VALUE, "STRUCT", fields=value),
        Field(PARTITION_TIME, "TIMESTAMP"),
        Field(I, "INT64", "REQUIRED"),
        Field(BATCH_NUMBER, "INT64", "REQUIRED"),
    )


class Intermediates:
    """Makes and removes the intermediate tables of a run. Safe from several threads."""

    def __init__(self, client: Any, metrics: Metrics) -> None:
        self._client = client
        self._metrics = metrics
        self._there: dict[str, list[str]] = {}
        self._lock = threading.Lock()
        self._began = time.time_ns() // 1_000_000  # part of names, so that people see how old a table is

    def make(self, table: TargetTable, schema: TableSchema) -> Intermediate:
        """A new one for `table`; those that dead runs left for it are removed first."""
        from google.cloud import bigquery

        session = table.session
        config = session.config
        self._remove_orphans(table)
        made = Intermediate(table.place, self._name(table), schema)
        key = key_field(schema, config.kafka_key_field_name)
        definition = session.warehouse.definition(made.id, intermediate_fields(key, source_fields(schema, config)))
        definition.time_partitioning = bigquery.TimePartitioning(type_="DAY")
        definition.labels = {**config.labels, **_labels(table), EPOCH: str(session.context.epoch)}
        session.warehouse.create(definition, table.table)
        return made

    def drop(self, made: Intermediate, of: TableId) -> None:
        """Remove one; what cannot be removed now is an orphan for the next run."""
        from google.api_core.exceptions import GoogleAPICallError

        try:
            self._client.delete_table(made.id, not_found_ok=True, retry=None, timeout=_DROP_SECONDS)
        except (GoogleAPICallError, OSError):
            self._metrics.count("bigquery.tables_left", table=of)

    def _name(self, table: TargetTable) -> str:
        """`_${dest}_${suffix}_${task}_${uuid}_${epoch}`; the task is the replicator."""
        session, (dest, task) = table.session, _LONGEST
        parts = (
            table.place.table[:dest],
            session.config.intermediate_table_suffix,
            table_name(session.context.replicator_name)[:task],
            uuid.uuid4().hex,
            str(self._began),
        )
        return "_" + "_".join(parts)

    def _remove_orphans(self, table: TargetTable) -> None:
        """Remove what runs before this one left for `table`: they are dead to it, since this one has claimed it.

        Labels say whose a table is, so that one left under another suffix is found too; a copy that somebody made of one has
        no such name. A run that lost the table to a higher epoch cannot merge any more, even if it still streams.
        """
        session, place = table.session, table.place
        epoch = session.context.epoch
        if table.standing().epoch != epoch:
            return  # not claimed yet: nobody has written it
        named = re.compile(re.escape(f"_{place.table[: _LONGEST[0]]}_") + r"[A-Za-z0-9_]+_[0-9a-f]{32}_[0-9]+")
        dataset = f"{place.project}.{place.dataset}"
        for left in filter(named.fullmatch, self._tables_in(dataset, table)):
            labels = self._labels_of(f"{dataset}.{left}", table)
            ours = all(labels.get(k) == v for k, v in _labels(table).items())
            if ours and labels.get(EPOCH, "").isdigit() and int(labels[EPOCH]) < epoch:
                self.drop(Intermediate(place, left, _NOTHING), table.table)
                self._metrics.count("bigquery.orphans_removed", table=table.table)

    def _tables_in(self, dataset: str, table: TargetTable) -> list[str]:
        """The tables that were in the dataset when this run first asked: what dead runs left was there by then."""
        with self._lock:
            if dataset not in self._there:
                self._there[dataset] = table.session.jobs.ask(
                    f"looking for tables that dead runs left in {dataset}",
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

        found: dict[str, str] = table.session.jobs.ask(f"looking at {table_id}", table.table, ask, place=table_id)
        return found


_NOTHING: Final = TableSchema(TableId("", ""), ())


def _labels(table: TargetTable) -> dict[str, str]:
    """Whose an intermediate table is, and for which table; digests, since labels hold little."""
    return {OWNER: _digest(table.session.owner), OF_TABLE: _digest(table.place.id)}


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]
