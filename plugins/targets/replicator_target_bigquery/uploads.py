"""Rows as Parquet files in the staging bucket, where load jobs find them."""

from __future__ import annotations

import io
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from replicator_sdk.schema import TableId
from replicator_target_bigquery.patience import Asking

FILE_BYTES: Final = 128 << 20
"""How many bytes of Arrow, before compression, end a file."""
_ROOT: Final = "replicator"


@dataclass(frozen=True, slots=True)
class Files:
    """What was written.

    Attributes:
        paths: The files, within the bucket.
        rows: The rows in all of them.
    """

    paths: tuple[str, ...] = ()
    rows: int = 0


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder of the bucket to which several threads and executors may write at once. Picklable.

    Attributes:
        bucket: The bucket.
        path: The folder, which nobody else uses.
        table: The table concerned.
    """

    bucket: str
    path: str
    table: TableId

    def write(self, client: Any, asking: Asking, rows: Iterable[pa.Table], file_bytes: int = FILE_BYTES) -> Files:
        """Write rows, a file for each `file_bytes` of them; no file when there are none.

        Holds the rows of one file. Names begin with an identifier of this very attempt: whoever repeats the work, even at
        the same time, writes other files.
        """
        bucket: Any = client.bucket(self.bucket)
        attempt, paths, written = uuid.uuid4().hex, list[str](), 0
        file: ParquetFile | None = None
        for part in rows:
            if part.num_rows:
                file = file or ParquetFile()
                file.add(part)
                written += part.num_rows
            if file and file.nbytes >= file_bytes:
                paths.append(self._put(bucket, asking, f"{attempt}-{len(paths):05d}", file))
                file = None
        if file:
            paths.append(self._put(bucket, asking, f"{attempt}-{len(paths):05d}", file))
        return Files(tuple(paths), written)

    def _put(self, bucket: Any, asking: Asking, name: str, file: ParquetFile) -> str:
        content, path = file.finish(), f"{self.path}/{name}.parquet"

        def put() -> None:
            bucket.blob(path).upload_from_string(content, content_type="application/octet-stream", retry=None)

        asking.ask("writing to the staging bucket", self.table, put, place=f"gs://{self.bucket}")
        return path


class Upload:
    """The files of one load, in a folder nobody else uses. Used by one thread.

    Attributes:
        folder: Where they are.
        rows: How many rows are in them.
    """

    def __init__(self, client: Any, asking: Asking, bucket: str, folder: str, table: TableId) -> None:
        self._client = client
        self._asking = asking
        self._files: list[str] = []
        self.folder = Folder(bucket, f"{_ROOT}/{folder}/{uuid.uuid4().hex}", table)
        self.rows = 0

    @property
    def uris(self) -> list[str]:
        """The files, as load jobs take them."""
        return [f"gs://{self.folder.bucket}/{path}" for path in self._files]

    def write(self, batches: Iterable[pa.Table]) -> None:
        """Write rows from here, a file for each 128 MB of them; none when there are none."""
        self.add(self.folder.write(self._client, self._asking, batches))

    def add(self, files: Files) -> None:
        """Take in what others have written into `folder`; nothing else of theirs is loaded."""
        self._files += files.paths
        self.rows += files.rows

    def remove(self) -> None:
        """Delete the folder, also what attempts left in it that failed or came twice.

        What cannot be deleted, or is written later by an attempt that nobody waits for, is left to the bucket's lifecycle
        rule.
        """
        from google.api_core.exceptions import GoogleAPICallError, NotFound
        from google.auth.exceptions import GoogleAuthError

        try:
            for blob in self._client.list_blobs(self.folder.bucket, prefix=f"{self.folder.path}/", retry=None):
                try:
                    blob.delete(retry=None)
                except NotFound:
                    continue
        except (GoogleAPICallError, GoogleAuthError, OSError):
            return


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
        """The whole file; the rows are let go.

        Dictionaries are made of text only: looking for repeated numbers and times costs more than it saves.
        """
        import pyarrow.parquet as pq

        rows = pa.concat_tables(self._parts)
        self._parts.clear()
        repeated = [f.name for f in rows.schema if pa.types.is_string(f.type) or pa.types.is_dictionary(f.type)]
        sink = io.BytesIO()
        pq.write_table(rows, sink, compression="snappy", write_statistics=False, use_dictionary=repeated)
        return sink.getvalue()
