"""Rows as Parquet files in the staging bucket, where load jobs find them."""

from __future__ import annotations

import io
import uuid
from collections.abc import Iterable
from typing import Any, Final

import pyarrow as pa

from replicator_sdk.schema import TableId
from replicator_target_bigquery.jobs import Jobs

_FILE_BYTES: Final = 128 << 20  # of Arrow, before compression
_ROOT: Final = "replicator"


class Upload:
    """The files of one load, in a folder nobody else uses. Used by one thread."""

    def __init__(self, client: Any, jobs: Jobs, bucket: str, folder: str, table: TableId) -> None:
        self._bucket: Any = client.bucket(bucket)
        self._jobs = jobs
        self._table = table
        self._prefix = f"{_ROOT}/{folder}/{uuid.uuid4().hex}"
        self._files: list[str] = []
        self.rows = 0

    @property
    def uris(self) -> list[str]:
        """The files, as load jobs take them."""
        return [f"gs://{self._bucket.name}/{path}" for path in self._files]

    def write(self, batches: Iterable[pa.Table]) -> None:
        """Write rows, a file for each 128 MB; none when there are none."""
        held: list[pa.Table] = []
        for batch in batches:
            held.append(batch)
            if sum(part.nbytes for part in held) >= _FILE_BYTES:
                self._put(held)
                held = []
        if any(part.num_rows for part in held):
            self._put(held)

    def _put(self, parts: list[pa.Table]) -> None:
        content = parquet(parts)
        path = f"{self._prefix}/part-{len(self._files):05d}.parquet"

        def put() -> None:
            self._bucket.blob(path).upload_from_string(content, content_type="application/octet-stream", retry=None)

        self._jobs.ask("writing to the staging bucket", self._table, put, place=f"gs://{self._bucket.name}")
        self._files.append(path)
        self.rows += sum(part.num_rows for part in parts)

    def remove(self) -> None:
        """Delete the files; what cannot be deleted is left to the bucket's lifecycle rule."""
        from google.api_core.exceptions import GoogleAPICallError

        for path in self._files:
            try:
                self._bucket.blob(path).delete(retry=None)
            except (GoogleAPICallError, OSError):
                return


def parquet(parts: list[pa.Table]) -> bytes:
    """Rows as one Parquet file.

    Dictionaries are made of text only: looking for repeated numbers and times costs more than it saves.
    """
    import pyarrow.parquet as pq

    schema = parts[0].schema
    repeated = [f.name for f in schema if pa.types.is_string(f.type) or pa.types.is_dictionary(f.type)]
    sink = io.BytesIO()
    with pq.ParquetWriter(
        sink, schema, compression="snappy", write_statistics=False, use_dictionary=repeated
    ) as writer:
        writer.write_table(pa.concat_tables(parts))  # one row group: each costs as much as some thousand rows
    return sink.getvalue()
