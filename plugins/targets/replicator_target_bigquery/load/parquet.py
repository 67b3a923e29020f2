"""Rows as Parquet files, and how load jobs read them."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from replicator_target_bigquery.schema.fields import Field

if TYPE_CHECKING:
    from google.cloud import bigquery


class ParquetFile:
    """Rows as one Parquet file in memory, in one row group: each costs as much as some thousand rows.

    Attributes:
        nbytes: How many bytes of Arrow went in.
    """

    def __init__(self) -> None:
        self.nbytes = 0
        self._parts: list[pa.Table] = []

    def add(self, rows: pa.Table) -> None:
        """Append rows; all have the same columns."""
        self._parts.append(rows)
        self.nbytes += rows.nbytes

    def finish(self) -> bytes:
        """The whole file; the rows are released.

        Only text is dictionary-encoded: looking for repeated numbers and times costs more than it saves.
        """
        import pyarrow.parquet as pq

        rows = pa.concat_tables(self._parts)
        self._parts.clear()
        repeated = [f.name for f in rows.schema if pa.types.is_string(f.type) or pa.types.is_dictionary(f.type)]
        sink = io.BytesIO()
        pq.write_table(rows, sink, compression="snappy", write_statistics=False, use_dictionary=repeated)
        return sink.getvalue()


def load_config(
    fields: Sequence[Field], *, labels: dict[str, str] | None = None, encryption: str = ""
) -> bigquery.LoadJobConfig:
    """The job settings that append Parquet files to an existing table with these columns."""
    from google.cloud import bigquery
    from google.cloud.bigquery.format_options import ParquetOptions

    parquet = ParquetOptions()  # type: ignore[no-untyped-call]
    parquet.enable_list_inference = True
    config: Any = bigquery.LoadJobConfig(
        source_format="PARQUET",
        write_disposition="WRITE_APPEND",
        create_disposition="CREATE_NEVER",
        schema=[bigquery.SchemaField.from_api_repr(f.to_api()) for f in fields],
        parquet_options=parquet,
        labels=dict(labels or {}),
    )
    if encryption:
        config.destination_encryption_configuration = bigquery.EncryptionConfiguration(kms_key_name=encryption)
    made: bigquery.LoadJobConfig = config
    return made
