"""Rows as Parquet files in the staging bucket, where load jobs find them."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from replicator_sdk.schema import TableId
from replicator_target_bigquery.api.first_answer import Service
from replicator_target_bigquery.api.retry import Requester
from replicator_target_bigquery.load.parquet import ParquetFile

FILE_BYTES: Final = 128 << 20
"""How many bytes of Arrow, before compression, end a file."""
ROOT: Final = "replicator"
"""The folder of everything that is written to the bucket."""
_LEFT_AT_ONCE: Final = 100


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
        path: The folder, used by this load only.
        table: The table concerned.
    """

    bucket: str
    path: str
    table: TableId

    def write(self, client: Any, requester: Requester, rows: Iterable[pa.Table], file_bytes: int = FILE_BYTES) -> Files:
        """Write rows, a file for each `file_bytes` of them; no file when there are none.

        Holds the rows of one file. Names begin with an identifier of this attempt, so that a repeated task, even at
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
                paths.append(self._put(bucket, requester, f"{attempt}-{len(paths):05d}", file))
                file = None
        if file:
            paths.append(self._put(bucket, requester, f"{attempt}-{len(paths):05d}", file))
        return Files(tuple(paths), written)

    def _put(self, bucket: Any, requester: Requester, name: str, file: ParquetFile) -> str:
        content, path = file.finish(), f"{self.path}/{name}.parquet"

        def put() -> None:
            bucket.blob(path).upload_from_string(content, content_type="application/octet-stream", retry=None)

        place, service = f"gs://{self.bucket}", Service.STORAGE
        requester.request("writing to the staging bucket", self.table, put, place=place, service=service)
        return path


def delete_folder(client: Any, bucket: str, path: str) -> None:
    """Delete all files of a folder; one that is gone is no error.

    Raises:
        GoogleAPICallError: What the request failed with; also GoogleAuthError and OSError.
    """
    _delete(client.list_blobs(bucket, prefix=f"{path}/", retry=None))


def try_to_delete(client: Any, bucket: str, path: str) -> None:
    """The same; where the request fails, what is left stays until the next deletion there, or the bucket's lifecycle rule deletes it."""
    with _failures_ignored():
        delete_folder(client, bucket, path)


def _delete(blobs: Iterable[Any]) -> None:
    from google.api_core.exceptions import NotFound

    for blob in blobs:
        with contextlib.suppress(NotFound):
            blob.delete(retry=None)


@contextlib.contextmanager
def _failures_ignored() -> Iterator[None]:
    from google.api_core.exceptions import GoogleAPICallError
    from google.auth.exceptions import GoogleAuthError

    with contextlib.suppress(GoogleAPICallError, GoogleAuthError, OSError):
        yield


class Upload:
    """The files of one load, in a folder of its own. Used by one thread.

    Args:
        client: Cloud Storage.
        requester: Repeats requests.
        bucket: The bucket.
        folder: Where the load's folder is.
        table: The table concerned.
        name: The load's folder in it.

    Attributes:
        folder: Where they are.
        rows: How many rows are in them.
    """

    def __init__(
        self, client: Any, requester: Requester, bucket: str, folder: str, table: TableId, name: str = ""
    ) -> None:
        self._client = client
        self._requester = requester
        self._files: list[str] = []
        self.folder = Folder(bucket, f"{ROOT}/{folder}/{name or uuid.uuid4().hex}", table)
        self.rows = 0

    @property
    def uris(self) -> list[str]:
        """The files, as load jobs take them."""
        return [f"gs://{self.folder.bucket}/{path}" for path in self._files]

    def write(self, batches: Iterable[pa.Table]) -> None:
        """Write rows from this process, a file for each 128 MB of them; no file when there are none."""
        self.add(self.folder.write(self._client, self._requester, batches))

    def add(self, files: Files) -> None:
        """Add files that a thread or an executor has written into `folder`; only added files are loaded."""
        self._files += files.paths
        self.rows += files.rows

    def remove(self) -> None:
        """Delete the folder, with the files of attempts that failed or ran twice.

        What cannot be deleted, or is written later by an abandoned attempt, is left to the bucket's lifecycle rule.
        """
        try_to_delete(self._client, self.folder.bucket, self.folder.path)


class UploadInTurn(Upload):
    """The files of a load that no other load of the table runs beside: it also removes what those before it have left.

    A process that is killed leaves its files, and so does a task that was given up and goes on writing. The names of the loads'
    folders begin with the run's epoch and the time, so that a run which was superseded deletes nothing of its successor.

    Args:
        client: Cloud Storage.
        requester: Repeats requests.
        bucket: The bucket.
        folder: Where such loads of the table have their folders.
        table: The table concerned.
        epoch: The run's.
    """

    def __init__(
        self, client: Any, requester: Requester, bucket: str, folder: str, table: TableId, *, epoch: int
    ) -> None:
        name = f"{epoch:020d}-{time.time_ns():020d}-{uuid.uuid4().hex}"
        super().__init__(client, requester, bucket, folder, table, name)

    def remove(self) -> None:
        """Delete the folder, then what earlier loads have left, by one request that lists and one for each file.

        So many files of those at most that it takes about as long after many kills as after one.
        """
        place, _, name = self.folder.path.rpartition("/")

        def load(blob: Any) -> str:
            found: str = blob.name.removeprefix(f"{place}/").partition("/")[0]
            return found

        with _failures_ignored():
            blobs = list(self._client.list_blobs(self.folder.bucket, prefix=f"{place}/", retry=None))
            _delete(blob for blob in blobs if load(blob) == name)
            _delete([blob for blob in blobs if load(blob) < name][:_LEFT_AT_ONCE])
