"""A few rows of a table, read without a slot, a publication or an exported snapshot."""

from __future__ import annotations

import contextlib
from collections import Counter

import pyarrow as pa

from replicator_sdk.authoring.driver_errors import naming_table
from replicator_sdk.config import OutOfRange
from replicator_sdk.schema import TableId
from replicator_sdk.source import EventReaderDefinition
from replicator_source_postgres.catalogue import Catalogue
from replicator_source_postgres.connection import Endpoint, quote_identifier, statement
from replicator_source_postgres.diagnosis import diagnosed
from replicator_source_postgres.snapshots.chunk_plan import full_name
from replicator_source_postgres.snapshots.chunk_reader import check_condition, copy_out
from replicator_source_postgres.snapshots.copy_format import split_columns
from replicator_source_postgres.table_registry import find_readable
from replicator_source_postgres.types.convert import Converter

_SECONDS = 20


def sample_rows(
    endpoint: Endpoint, definition: EventReaderDefinition, table: TableId, rows: int, out_of_range: OutOfRange
) -> pa.RecordBatch:
    """At most `rows` rows of `table`, fewer where they fill a batch; the server gives up after 20 seconds.

    Raises:
        ReplicatorError: When the table cannot be read, or a value is refused.
    """
    schema, condition = definition.tables[table], definition.conditions.get(table, "")
    columns = ", ".join(map(quote_identifier, schema.names))
    where = f" WHERE ({condition})" if condition else ""
    with (
        contextlib.closing(endpoint.connect(statement_timeout_seconds=_SECONDS)) as connection,
        naming_table(table),
        diagnosed(f"reading rows of {table}"),
    ):
        facts = find_readable(Catalogue(connection, endpoint.config.database), table)
        name = full_name(facts)
        only = "ONLY " if facts.kind == "r" else ""
        connection.execute("BEGIN READ ONLY")
        check_condition(connection, table, name, condition)
        query = f"SELECT {columns} FROM {only}{name}{where} LIMIT {int(rows)}"  # noqa: S608 - quoted names
        found = next(copy_out(connection.pgconn, statement(f"COPY ({query}) TO STDOUT")), [])
        replaced: Counter[str] = Counter()
        converters = [Converter(table, column, out_of_range, replaced) for column in schema.columns]
        texts = split_columns(found, len(converters))
        arrays = [converter.convert_marked(text)[0] for converter, text in zip(converters, texts, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema.arrow)
