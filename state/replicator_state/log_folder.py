"""The files that keep a replicator's log lines: bounded in bytes and age, beside its generations, so that a reset keeps them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal

from replicator_state.storage.folder import Folder
from replicator_state.storage.local_folder import LocalFolder
from replicator_state.storage.store_retry import StoreRetry

LogKind = Literal["run", "spark"]

FILE_BYTES: Final = 1 << 20
"""A file with more bytes is followed by another one: where a store cannot append, a file is written again as a whole."""
_FILES_AT_MOST: Final = 1000
_NAME: Final = re.compile(r"(?P<kind>run|spark)-(?P<began>\d{8}T\d{12})Z-(?P<run_id>[0-9A-Za-z]+)\.log")
_TIME: Final = "%Y%m%dT%H%M%S%f"
_LOCAL_SECONDS, _REMOTE_SECONDS = 0.2, 5.0


@dataclass(frozen=True, slots=True, order=True)
class LogFile:
    """One file of lines; they sort by the time at which they begin.

    Attributes:
        began: Not after its first line, UTC.
        name: Its name.
        run_id: The run that wrote it.
        size: Bytes.
    """

    began: datetime
    name: str
    run_id: str
    size: int


class LogFolder:
    """Safe from any thread. Each run writes files of its own.

    Args:
        folder: The folder `logs` of a replicator.
        retry: How long faults of the store are waited out.
        fence: Raises `FencedError` when this run was superseded.
    """

    def __init__(self, folder: Folder, retry: StoreRetry, fence: Callable[[], None]) -> None:
        self._folder = folder
        self._retry = retry
        self._fence = fence

    @property
    def place(self) -> str:
        """The folder for messages, without credentials."""
        return self._folder.place

    @property
    def write_seconds(self) -> float:
        """How long lines are gathered: a store that cannot append charges for each write, and writes a file again as a whole."""
        return _LOCAL_SECONDS if isinstance(self._folder, LocalFolder) else _REMOTE_SECONDS

    def begin(self, kind: LogKind, run_id: str, began: datetime) -> str:
        """The name of a new file."""
        return f"{kind}-{began.astimezone(UTC).strftime(_TIME)}Z-{run_id}.log"

    def append(self, name: str, added: bytes, whole: bytes) -> None:
        """See `Folder.append`.

        Raises:
            FencedError: When a newer run took over, or a deletion; nothing is written then.
            ReplicatorError: As the store fails (RPL-7103 to RPL-7105).
        """
        self._fence()
        self._retry.run("keep log lines", lambda: self._folder.append(name, added, whole), wait_for_user=False)

    def files(self, kind: LogKind) -> list[LogFile]:
        """All files of a kind, the oldest first.

        Raises:
            ReplicatorError: RPL-7104 or RPL-7105 when the store cannot be listed.
        """
        sizes = self._retry.run("list the log", lambda: self._folder.sizes(f"{kind}-"), wait_for_user=False)
        named = ((_NAME.fullmatch(name), name, size) for name, size in sizes.items())
        return sorted(
            LogFile(datetime.strptime(found["began"], _TIME).replace(tzinfo=UTC), name, found["run_id"], size)
            for found, name, size in named
            if found is not None
        )

    def read(self, name: str) -> bytes:
        """The content of a file; empty when it does not exist any more.

        Raises:
            ReplicatorError: As the store fails (RPL-7104, RPL-7105).
        """
        try:
            return self._retry.run("read the log", lambda: self._folder.read(name), wait_for_user=False)
        except FileNotFoundError:
            return b""

    def prune(self, kind: LogKind, max_bytes: int, ended_before: datetime) -> None:
        """Delete the oldest files of a kind beyond so many bytes, beyond a thousand, and those whose last line is older.

        Args:
            kind: Which files.
            max_bytes: What the others have together, with one more full file.
            ended_before: A file ends at the latest where the next one begins.

        Raises:
            ReplicatorError: As the store fails (RPL-7104, RPL-7105).
        """
        files = self.files(kind)
        held = FILE_BYTES
        for index in range(len(files) - 1, -1, -1):
            held += files[index].size
            is_old = index + 1 < len(files) and files[index + 1].began < ended_before
            if held > max_bytes or is_old or len(files) - index >= _FILES_AT_MOST:
                for file in files[: index + 1]:
                    self._remove(file.name)
                return

    def _remove(self, name: str) -> None:
        self._retry.run("delete old log lines", lambda: self._folder.remove(name), wait_for_user=False)
