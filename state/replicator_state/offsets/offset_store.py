"""Saved offsets of one generation: append-only files, the newest readable one counts."""

from __future__ import annotations

import dataclasses
import logging
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import islice

from replicator_sdk.errors import FencedError, NeedsUserError
from replicator_sdk.failpoint import failpoint, register
from replicator_state.offsets.offset_format import (
    SavedOffset,
    UnreadableError,
    UnreadableFile,
    decode,
    encode,
    microseconds,
    moment,
)
from replicator_state.offsets.retention import RetainedFiles, Retention
from replicator_state.storage.folder import Folder, create_once
from replicator_state.storage.store_retry import StoreRetry

register("state.offset.before_write", "state.offset.after_write", "state.offset.taken_over")

_PREFIX = "offset."
_NONE = re.compile(r"no-offset\.(\d{20})")
_NAME = re.compile(r"offset\.(\d{20})")
_LOOK_BACK = 8  # how many of the newest files are compared by epoch
_APART = 1000  # where creation is not exclusive, epochs use numbers of their own: those of their remainder
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

    A superseded run's file counts for no later run, however late it is written: a run saves the offset that it begins
    with under its own epoch, and records when there was none.

    Args:
        folder: The generation's folder.
        retry: How long faults of the store are waited out.
        epoch: The writer's lease epoch, kept in every file.
        fence: Raises `FencedError` when this run was superseded; None for readers.
        retention: Which older offsets stay for a rewind.
    """

    def __init__(
        self,
        folder: Folder,
        retry: StoreRetry,
        *,
        epoch: int = 0,
        fence: Callable[[], None] | None = None,
        retention: Retention | None = None,
    ) -> None:
        self._folder = folder
        self._retry = retry
        self._epoch = epoch
        self._fence = fence or (lambda: None)
        self._retention = retention or Retention()
        self._retained: RetainedFiles | None = None
        self._lock = threading.RLock()

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
            failpoint("state.offset.before_write")
            stored = self._store(offset)
            failpoint("state.offset.after_write")
            if self._retained:
                self._prune(self._retained, microseconds(offset.saved_at))
            return stored

    def latest(self) -> SavedOffset | None:
        """The offset to resume from; None only when none was ever saved.

        Unreadable newest files are passed over, reported in `recovered_from` and logged. A file that a superseded run
        wrote after its successor had read is passed over too: the higher epoch wins. So the lease holder saves what it
        finds under its own epoch before it returns it.

        Raises:
            FencedError: When this is a run's store and a newer run took over.
            NeedsUserError: RPL-7110 when there are offsets and none can be read: unreadable offsets never cause a start from scratch.
        """
        with self._lock:
            names = self._retry.run("list the offsets", self._folder.names)
            none_before = max((int(match[1]) for match in map(_NONE.fullmatch, names) if match), default=0)
            found = self._newest(names, none_before)
            if not self._epoch or (found and found.epoch == self._epoch):
                return found
            if found is None:
                self._note_none(none_before)
                return None
            return self._take_over(found)

    def _newest(self, names: Iterable[str], none_before: int) -> SavedOffset | None:
        """The newest readable offset of the highest epoch; those of epochs below `none_before` count for nothing."""
        bad: list[UnreadableFile] = []
        good: list[SavedOffset] = []
        for number in reversed(_sorted_numbers(names)):
            if good and len(good) + len(bad) >= _LOOK_BACK:
                break
            found = self._read(number)
            if isinstance(found, SavedOffset) and found.epoch >= none_before:
                good.append(found)
            elif isinstance(found, SavedOffset):
                self._passed_over(_superseded(found))
            elif found:
                bad.append(found)
        if not good and bad:
            raise NeedsUserError(
                f"none of the {len(bad)} saved offsets at {self._folder.place} can be read ({bad[0].reason})",
                code="RPL-7110",
                hint="restore an offset file from a backup, or `replicator reset PIPELINE`: every table is copied again",
            )
        return self._choose(good, bad) if good else None

    def _take_over(self, found: SavedOffset) -> SavedOffset:
        """Save what this run begins with under its own epoch."""
        taken = self._store(found)
        failpoint("state.offset.taken_over")
        return dataclasses.replace(taken, recovered_from=found.recovered_from)

    def _note_none(self, none_before: int) -> None:
        """Keep that this run begins without an offset, so that no file of an earlier run counts later."""

        def attempt() -> None:
            """One try."""
            self._fence()
            self._folder.replace(_none_name(self._epoch), b"")
            if 0 < none_before < self._epoch:
                self._folder.remove(_none_name(none_before))

        if none_before != self._epoch:
            self._retry.run("note that there is no offset", attempt)

    def _store(self, offset: SavedOffset) -> SavedOffset:
        """Write a file of this epoch after all others."""
        retained = self._retained = self._retained or RetainedFiles(self._retention, self._numbers())
        stored = dataclasses.replace(offset, epoch=self._epoch, recovered_from=())
        content = encode(stored)
        number = self._own_number(max(microseconds(offset.saved_at), retained.newest + 1))

        def attempt() -> int:
            """One try."""
            self._fence()
            return self._create(number, content)

        number = self._retry.run("save the offset", attempt)
        self._withdraw_if_fenced(number)
        retained.add(number)
        return dataclasses.replace(stored, commit_timestamp=number)

    def _own_number(self, number: int) -> int:
        """The first number from `number` on that no run of another epoch uses, where two could create one name."""
        if not self._epoch or self._folder.exclusive:
            return number
        return number + (self._epoch - number) % _APART

    def history(self, limit: int | None = None) -> list[OffsetEntry]:
        """Saved offsets that are still kept, newest first, at most `limit`; unreadable ones with their problem."""
        return list(islice(self.newest_first(), limit))

    def newest_first(self, until: datetime | None = None) -> Iterator[OffsetEntry]:
        """The same one by one, each read when it is asked for; those saved after `until` are not read."""
        newest = microseconds(until) if until is not None else None
        for number in reversed(self._numbers()):
            if newest is not None and number > newest:
                continue
            found = self._read(number)
            if isinstance(found, SavedOffset):
                yield OffsetEntry(_name(number), moment(number), found)
            elif found:
                yield OffsetEntry(found.name, moment(number), None, found.reason)

    def oldest(self) -> SavedOffset | None:
        """The oldest offset that is still kept and can be read; None when there is none."""
        found = (self._read(number) for number in self._numbers())
        return next((offset for offset in found if isinstance(offset, SavedOffset)), None)

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

    def forget_between(self, older: SavedOffset, newer: SavedOffset) -> None:
        """Delete the files saved after `older` and before `newer`, to which one can go back no more; idempotent.

        Raises:
            FencedError: When a newer run took over.
        """
        with self._lock:
            for number in self._numbers():
                if older.commit_timestamp < number < newer.commit_timestamp:
                    self._retry.run("delete an offset", partial(self._forget, number))
            self._retained = None  # it is listed again at the next save

    def _forget(self, number: int) -> None:
        self._fence()
        self._folder.remove(_name(number))

    def _numbers(self) -> list[int]:
        return _sorted_numbers(self._retry.run("list the offsets", lambda: self._folder.names(_PREFIX)))

    def _read(self, number: int) -> SavedOffset | UnreadableFile | None:
        """The file's offset, or why not; None when it was pruned meanwhile."""
        name = _name(number)
        try:
            content = self._retry.run("read an offset", lambda: self._folder.read(name))
            return dataclasses.replace(decode(content), commit_timestamp=number)
        except FileNotFoundError:
            return None
        except UnreadableError as error:
            return UnreadableFile(name, str(error))

    def _choose(self, good: list[SavedOffset], bad: list[UnreadableFile]) -> SavedOffset:
        best = max(good, key=lambda o: (o.epoch, o.commit_timestamp))
        zombies = [_superseded(o) for o in good if o.commit_timestamp > best.commit_timestamp]
        passed = [b for b in (*zombies, *bad) if b.name > _name(best.commit_timestamp)]
        for file in passed:
            self._passed_over(file)
        return dataclasses.replace(best, recovered_from=tuple(passed))

    @staticmethod
    def _passed_over(file: UnreadableFile) -> None:
        _log.warning("offset file %s passed over: %s", file.name, file.reason, extra={"code": "RPL-7113"})

    def _create(self, number: int, content: bytes) -> int:
        while True:
            try:
                create_once(self._folder, _name(number), content)
            except FileExistsError:
                number = self._own_number(number + 1)
            else:
                return number

    def _withdraw_if_fenced(self, number: int) -> None:
        try:
            self._fence()
        except FencedError:
            self._folder.remove(_name(number))
            raise

    def _prune(self, retained: RetainedFiles, now: int) -> None:
        """Delete what retention gives up; a failure costs space only, so it never fails a save."""
        for number in retained.give_up(now):
            try:
                self._folder.remove(_name(number))
            except Exception as error:  # noqa: BLE001  # object store clients raise types of their own
                _log.warning("could not delete an old offset: %s", type(error).__name__, extra={"code": "RPL-7114"})


def _name(number: int) -> str:
    return f"{_PREFIX}{number:020d}"


def _none_name(epoch: int) -> str:
    return f"no-offset.{epoch:020d}"


def _sorted_numbers(names: Iterable[str]) -> list[int]:
    return sorted(int(match[1]) for match in map(_NAME.fullmatch, names) if match)


def _superseded(offset: SavedOffset) -> UnreadableFile:
    return UnreadableFile(_name(offset.commit_timestamp), f"written by the superseded epoch {offset.epoch}")
