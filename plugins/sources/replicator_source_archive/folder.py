"""The files of an archive, read from any file system."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.parquet as pq

from replicator_sdk.errors import NeedsUserError, RetryableError

if TYPE_CHECKING:
    from collections.abc import Iterator

_GROUP_ROWS = 65_536


class UnusableFileError(Exception):
    """A file of rows that does not exist, or is not as its manifest says; never leaves the source.

    Attributes:
        name: The file's path inside the archive.
        is_missing: Whether it does not exist.
    """

    def __init__(self, name: str, *, is_missing: bool = False) -> None:
        super().__init__(name)
        self.name, self.is_missing = name, is_missing


@dataclass(frozen=True)
class ArchiveFolder:
    """Files by their path inside the archive. Safe from any thread.

    Attributes:
        path: A local path, or any fsspec URL.
    """

    path: str

    @property
    def place(self) -> str:
        """The path for messages, without credentials."""
        if "://" not in self.path:
            return self.path
        parts = urlsplit(self.path)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    def names(self, folder: str) -> list[str]:
        """The names of the files of a folder; empty when it does not exist.

        Raises:
            ReplicatorError: RPL-3552 when the path cannot be used, RPL-3553 when it cannot be read now.
        """
        files, root = self._opened
        try:
            files.invalidate_cache()
            found = files.ls(f"{root}/{folder}", detail=True)
        except FileNotFoundError:
            return []
        except Exception as error:
            raise self._unreadable(error) from error
        return [one["name"].rpartition("/")[2] for one in found if one["type"] == "file"]

    def read(self, name: str) -> bytes:
        """The content of a file.

        Raises:
            FileNotFoundError: When it does not exist.
            ReplicatorError: As `names`.
        """
        files, root = self._opened
        try:
            files.invalidate_cache()
            return bytes(files.cat_file(f"{root}/{name}"))
        except FileNotFoundError:
            raise
        except Exception as error:
            raise self._unreadable(error) from error

    def read_all(self, names: list[str]) -> list[bytes | None]:
        """The contents of files, at once where the file system can; None for those that do not exist.

        Raises:
            ReplicatorError: As `names`.
        """
        files, root = self._opened
        paths = [f"{root}/{name}" for name in names]
        files.invalidate_cache()
        found = files.cat(paths, on_error="return") if paths else {}
        contents = [found.get(path, found.get(f"/{path}")) for path in paths]
        for content in contents:
            if isinstance(content, Exception) and not isinstance(content, FileNotFoundError):
                raise self._unreadable(content) from content
        return [content if isinstance(content, bytes) else None for content in contents]

    def batches(self, name: str) -> Iterator[pa.RecordBatch]:
        """The rows of a Parquet file, some ten thousand at once.

        Raises:
            UnusableFileError: When it does not exist, or is no whole Parquet file.
            ReplicatorError: As `names`.
        """
        try:
            content = self.read(name)
        except FileNotFoundError:
            raise UnusableFileError(name, is_missing=True) from None
        try:
            yield from pq.ParquetFile(pa.BufferReader(content)).iter_batches(_GROUP_ROWS)
        except (pa.ArrowException, OSError):  # the bytes are here: it is not the file system that fails
            raise UnusableFileError(name) from None

    @cached_property
    def _opened(self) -> tuple[Any, str]:
        from fsspec.core import url_to_fs

        try:
            files, root = url_to_fs(self.path)
        except (ImportError, ValueError) as error:
            raise NeedsUserError(
                f"{self.place} cannot be opened as an archive: {error}",
                code="RPL-3552",
                hint="set `path` of the source to the archive's folder, or to a URL of a file system that fsspec knows, and install that: s3fs (s3), gcsfs (gs), adlfs (abfs)",
            ) from error
        return files, str(root).rstrip("/")

    def _unreadable(self, error: Exception) -> RetryableError:
        return RetryableError(
            f"the archive at {self.place} cannot be read: {type(error).__name__}",
            code="RPL-3553",
            hint="see that the folder can be reached and read with the run's credentials; it is tried again",
        )
