"""A dataset of a test's own, the plugin writing to it, and a reader that shares no code with either."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal as Number
from typing import TYPE_CHECKING, Any

import pytest

from replicator_sdk.datatype import Array, DataType, Decimal, Record
from replicator_sdk.schema import TableSchema
from replicator_sdk.testing.contexts import TestTargetContext
from replicator_sdk.testing.histories.values import Row
from replicator_sdk.testing.in_memory.offset import MemoryOffset
from replicator_sdk.testing.target_suite import TargetSystem
from replicator_target_bigquery import BigQueryTarget
from replicator_target_bigquery.config import BigQueryConfig
from replicator_target_bigquery.consumer import BigQueryConsumer
from replicator_target_bigquery.schema.names import column_name, table_name
from tests.services.bigquery.emulators import BUCKET, LOCATION, PROJECT, Emulators, rows, staged_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Project(TargetSystem):
    """A target with a dataset of its own on the emulators."""

    def __init__(self, emulators: Emulators, **settings: Any) -> None:
        self.emulators = emulators
        self.dataset = f"d{uuid.uuid4().hex[:12]}"
        chosen = {
            "project": PROJECT,
            "dataset_name": self.dataset,
            "staging_bucket": BUCKET,
            "staging_bucket_location": LOCATION,
            "load_interval": 0,
            "schema_changes": "rebuild",
            "retry_seconds": 20,
            "arrays": "wrapped",  # the kit compares NULL arrays and NULL elements
            "api_endpoint": emulators.bigquery_endpoint,
            "storage_endpoint": emulators.storage_endpoint,
            "storage_write_endpoint": emulators.write_endpoint,
        }
        self.config = BigQueryConfig(**{**chosen, **settings})
        self.target = BigQueryTarget(self.config)
        self.spark: Callable[[], SparkSession] | None = None

    def consumer(self, *, epoch: int = 1, name: str = "conformance") -> BigQueryConsumer:
        """A consumer of the run `epoch`."""
        made = self.target.create_consumer(self.context(epoch=epoch, name=name))
        assert isinstance(made, BigQueryConsumer)
        return made

    def context(self, *, epoch: int = 1, name: str = "conformance") -> TestTargetContext:
        """What a consumer runs in."""
        return TestTargetContext(MemoryOffset.from_fields, epoch=epoch, spark=self.spark, name=name)

    def select(self, sql: str) -> list[list[Any]]:
        """The rows of a query; `{d}` is replaced by the dataset."""
        return rows(self.emulators, sql.replace("{d}", f"`{PROJECT}`.`{self.dataset}`"))

    def count(self, table: str) -> int:
        """How many rows a table has."""
        return int(self.select(f"SELECT COUNT(*) FROM {{d}}.`{table}`")[0][0])

    def files(self) -> list[str]:
        """The files in the bucket that loads of the dataset have left."""
        return [name for name in staged_files(self.emulators) if f"/{self.dataset}/" in name]

    def read_table(self, schema: TableSchema) -> list[Row]:
        """The source's columns of the rows that are not marked as deleted."""
        columns = ", ".join(f"`{column_name(c.name)}`" for c in schema.columns)
        live = " WHERE _is_deleted IS NOT TRUE" if self.config.soft_deletes else ""
        dataset = self.config.dataset_name or schema.table.database
        table = f"`{PROJECT}`.`{dataset}`.`{table_name(schema.table.table)}`"
        found = self.select(f"SELECT {columns} FROM {table}{live}")
        return [{c.name: _value(c.type, v) for c, v in zip(schema.columns, row, strict=True)} for row in found]

    def database_name(self, name: str) -> str:
        """The emulators keep the datasets of other tests."""
        return f"{name}_{self.dataset}"

    def has_database(self, name: str) -> bool:
        """Whether there is a dataset; with a `datasetName` for all databases none comes or goes."""
        if self.config.dataset_name:
            pytest.skip("datasetName has the tables of all databases in one dataset")
        query = f"SELECT schema_name FROM `{PROJECT}`.INFORMATION_SCHEMA.SCHEMATA"
        return [name] in rows(self.emulators, query)


def _value(kind: DataType, value: Any) -> Any:
    """A value of the REST interface as the standard type has it."""
    if value is None:
        return None
    if isinstance(kind, Array):
        return [_value(kind.element, item["v"]["f"][0]["v"]) for item in value["f"][0]["v"] or ()]
    if isinstance(kind, Record):
        return {name: _value(inner, part["v"]) for (name, inner), part in zip(kind.fields, value["f"], strict=True)}
    parse = Number if isinstance(kind, Decimal) else _PARSERS.get(kind.name, str)
    return parse(value)


def _instant(text: str) -> datetime:
    """Seconds since 1970 with a fraction, or microseconds."""
    micros = int(Number(text) * 1_000_000) if "." in text or "E" in text.upper() else int(text)
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)


_PARSERS: dict[str, Callable[[Any], Any]] = {
    "bool": lambda v: str(v).lower() == "true",
    **dict.fromkeys(("int8", "int16", "int32", "int64"), int),
    **dict.fromkeys(("float32", "float64"), float),
    "binary": base64.b64decode,
    "date": date.fromisoformat,
    "time": time.fromisoformat,
    "timestamp": datetime.fromisoformat,
    "instant": _instant,
}
