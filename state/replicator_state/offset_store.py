"""Saved offsets of one generation: append-only files, the newest readable one counts (seed 001, "Data Model")."""

from __future__ import annotations

import dataclasses
import logging
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from replicator_sdk.errors import FencedError, NeedsUserError
from replicator_sdk.failpoint import failpoint, register
from replicator_state.folder import Folder, create_once
from replicator_state.offset_format import (
    SavedOffset,
    UnreadableError,
    UnreadableFile,
    decode,
    encode,
    microseconds,
    moment,
)
from replicator_state.patience import Patience
from replicator_state.retention import Retention, Shelf

register("state.offset.before_write", "state.offset.after_write")

_PREFIX = "offset."
_NAME = re.compile(r"offset\.(\d{20})")
_LOOK_BACK = 8  # how many of the newest files are compared by epoch
_log = logging.getLogger("replicator.state")


@dataclass(frozen=True, slots=True)
class OffsetEntry:
    """One file of the history: the offset, or why it is unreadable."""

    name: str
    commit_time: datetime
    offset: SavedOffset | None
    problem: str = ""


class OffsetStore:
    """Saves offsets and finds the one to resume from.

    One writer at a time (the lease holder), any number of readers. Safe from any thread. Files are never changed.

    Args:
        folder: The generation's folder.
        patience: How long faults of the store are waited out.
        epoch: The writer's lease epoch, kept in every file.
        fence: Raises `FencedError` when this run was superseded; None for readers.
        retention: Which older offsets stay for a rewind.
    """

    def __init__(
        self,
        folder: Folder,
        patience: Patience,
        *,
        epoch: int = 0,
        fence: Callable[[], None] | None = None,
        retention: Retention | None = None,
    ) -> None:
        self._folder = folder
        self._patience = patience
        self._epoch = epoch
        self._fence = fence or (lambda: None)
        self._retention = retention or Retention()
        self._shelf: Shelf | None = None
        self._lock = threading.Lock()

    def save(self, offset: SavedOffset) -> SavedOffset:
        """Store `offset`; it is the newest and durable when this returns.

        The file's number is the time of saving, or one more than the newest file's when the clock stepped back.

        Returns:
            The offset as stored, with its number and epoch.

        Raises:
            FencedError: When a newer run took over; nothing of this call stays.
            NeedsUserError: When the store is full (RPL-7103) or refuses (RPL-7104).
            RetryableError: When it failed for the configured time (RPL-7105).
        """
        with self._lock:
            shelf = self._shelf = self._shelf or Shelf(self._retention, self._numbers())
            stored = dataclasses.replace(offset, epoch=self._epoch, recovered_from=())
            content = encode(stored)
            failpoint("state.offset.before_write")
            self._fence()
            number = max(microseconds(offset.saved_at), shelf.newest + 1)
            number = self._patience.run("save the offset", lambda: self._create(number, content))
            self._withdraw_if_fenced(number)
            failpoint("state.offset.after_write")
            shelf.add(number)
            self._prune(shelf, microseconds(offset.saved_at))
            return dataclasses.replace(stored, commit_timestamp=number)

    def latest(self) -> SavedOffset | None:
        """The offset to resume from; None only when none was ever saved.

        UnreadableError newest files are passed over, reported in `recovered_from` and logged. A file that a superseded run
        managed to write after its successor had saved is passed over too: the higher epoch wins.

        Raises:
            NeedsUserError: RPL-7110 when there are offsets and none can be read: "unreadable" never means "start anew".
        """
        bad: list[UnreadableFile] = []
        good: list[SavedOffset] = []
        for number in reversed(self._numbers()):
            if good and len(good) + len(bad) >= _LOOK_BACK:
                break
            found = self._read(number)
            if isinstance(found, SavedOffset):
                good.append(found)
            elif found:
                bad.append(found)
        if not good and bad:
            raise NeedsUserError(
                f"none of the {len(bad)} saved offsets at {self._folder.place} can be read ({bad[0].reason})",
                code="RPL-7110",
                hint="restore an offset file from a backup, or deploy the pipeline anew under a new generation",
            )
        return self._choose(good, bad) if good else None

    def history(self, limit: int | None = None) -> list[OffsetEntry]:
        """Saved offsets that are still kept, newest first, at most `limit`; unreadable ones with their problem."""
        entries = []
        for number in list(reversed(self._numbers()))[:limit]:
            found = self._read(number)
            if isinstance(found, SavedOffset):
                entries.append(OffsetEntry(_name(number), moment(number), found))
            elif found:
                entries.append(OffsetEntry(found.name, moment(number), None, found.reason))
        return entries

    def load(self, name: str) -> SavedOffset:
        """The offset in the file `name` of the history (`offset.…`, or its number alone).

        Raises:
            NeedsUserError: RPL-7112 when there is none of that name, RPL-7110 when it cannot be read.
        """
        digits = name.removeprefix(_PREFIX)
        found = self._read(int(digits)) if digits.isascii() and digits.isdigit() and len(digits) <= 20 else None
        if found is None:
            hint = "list them with `replicator offsets list`"
            raise NeedsUserError(f"there is no such offset at {self._folder.place}", code="RPL-7112", hint=hint)
        if isinstance(found, UnreadableFile):
            hint = "choose another one from `replicator offsets list`"
            raise NeedsUserError(f"{found.name} cannot be read: {found.reason}", code="RPL-7110", hint=hint)
        return found

    def _numbers(self) -> list[int]:
        names = self._patience.run("list the offsets", lambda: self._folder.names(_PREFIX))
        return sorted(int(match[1]) for match in map(_NAME.fullmatch, names) if match)

    def _read(self, number: int) -> SavedOffset | UnreadableFile | None:
        """The file's offset, or why not; None when it was pruned meanwhile."""
        name = _name(number)
        try:
            content = self._patience.run("read an offset", lambda: self._folder.read(name))
            return dataclasses.replace(decode(content), commit_timestamp=number)
        except FileNotFoundError:
            return None
        except UnreadableError as error:
            return UnreadableFile(name, str(error))

    def _choose(self, good: list[SavedOffset], bad: list[UnreadableFile]) -> SavedOffset:
        best = max(good, key=lambda o: (o.epoch, o.commit_timestamp))
        zombies = [
            UnreadableFile(_name(o.commit_timestamp), f"written by the superseded epoch {o.epoch}")
            for o in good
            if o.commit_timestamp > best.commit_timestamp
        ]
        passed = [b for b in (*zombies, *bad) if b.name > _name(best.commit_timestamp)]
        for file in passed:
            _log.warning("offset file %s passed over: %s", file.name, file.reason, extra={"code": "RPL-7113"})
        return dataclasses.replace(best, recovered_from=tuple(passed))

    def _create(self, number: int, content: bytes) -> int:
        while True:
            try:
                create_once(self._folder, _name(number), content)
            except FileExistsError:
                number += 1
            else:
                return number

    def _withdraw_if_fenced(self, number: int) -> None:
        try:
            self._fence()
        except FencedError:
            self._folder.remove(_name(number))
            raise

    def _prune(self, shelf: Shelf, now: int) -> None:
        """Delete what retention gives up; a failure costs space only, so it never fails a save."""
        for number in shelf.give_up(now):
            try:
                self._folder.remove(_name(number))
            except Exception as error:  # noqa: BLE001  # object store clients raise types of their own
                _log.warning("could not delete an old offset: %s", type(error).__name__, extra={"code": "RPL-7114"})


def _name(number: int) -> str:
    return f"{_PREFIX}{number:020d}"
