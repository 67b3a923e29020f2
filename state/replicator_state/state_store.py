"""Small durable values of one generation, and the status that other programs read."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from replicator_sdk.errors import BugError, FencedError, HistoryLostError, NeedsUserError
from replicator_sdk.failpoint import failpoint, register
from replicator_state.offsets.offset_format import UnreadableFile, moment
from replicator_state.storage.folder import Folder
from replicator_state.storage.store_retry import StoreRetry
from replicator_state.value_files import ValueFiles

register("state.put.before", "state.put.after", "state.status.before", "state.status.after")

STATUS = "state.json"
_STATUS = re.compile(r"state\.(\d{20})\.json")
_PREFIX = "state-"
_LONGEST = 200
_ONE_MOMENT = "put back all files of the folder as they were at one moment, or `replicator reset PIPELINE`: every table is copied again"
_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")


@dataclass(frozen=True, slots=True)
class StateValue:
    """A stored value; `recovered_from` names the damaged newer file when it is the previous version."""

    value: bytes
    recovered_from: UnreadableFile | None = None


class StateStore:
    """Keeps values under keys (`state-<key>`) and the status (`state.json`).

    Every write is atomic and durable when it returns. A value's file carries a checksum, and the version before it is
    kept beside it, to which a damaged file falls back, with a warning. One writer at a time (the lease holder), any
    number of readers; safe from any thread. Slow: not for every batch.

    A superseded run changes nothing that a later run reads, however late its write lands (`value_files`).

    Args:
        folder: The generation's folder.
        retry: How long faults of the store are waited out.
        epoch: The writer's lease epoch; 0 for readers.
        fence: Raises `FencedError` when this run was superseded; asked before every change. None for readers.
    """

    def __init__(
        self, folder: Folder, retry: StoreRetry, *, epoch: int = 0, fence: Callable[[], None] | None = None
    ) -> None:
        self._folder = folder
        self._retry = retry
        self._epoch = epoch
        self._fence = fence or (lambda: None)
        self._values = ValueFiles(folder, retry, epoch, self._fence)
        self._scope = ""
        self._is_status_tidy = False

    def scoped(self, scope: str) -> StateStore:
        """A view of the same store whose keys begin with `scope` and a dot."""
        view = StateStore(self._folder, self._retry, epoch=self._epoch, fence=self._fence)
        view._values, view._scope = self._values, f"{self._scope}{scope}."  # what one view has adopted, all have
        return view

    def get(self, key: str) -> bytes | None:
        """The value under `key`, None when there is none; `read` says whether it is the previous version."""
        found = self.read(key)
        return found.value if found else None

    def read(self, key: str) -> StateValue | None:
        """The value under `key` and whether it had to be recovered; None when there is none.

        Raises:
            FencedError: When a newer run took over and this one has not read the value before.
            NeedsUserError: RPL-7120 when both versions are damaged; a damaged value never counts as absent.
        """
        loaded = self._values.load(self._name(key))
        return None if loaded.value is None else StateValue(loaded.value, loaded.recovered_from)

    def put(self, key: str, value: bytes, *, numbered: bool = False) -> None:
        """Store `value` under `key`; the present value becomes the previous one.

        Args:
            key: Its key.
            value: The value.
            numbered: Whether offsets that are saved later need this version of it, or a later one (`numbers`).

        Raises:
            FencedError: When a newer run took over; nothing is changed that a later run reads.
            NeedsUserError: When the store is full (RPL-7103) or refuses (RPL-7104).
            RetryableError: When it failed for the configured time (RPL-7105).
        """
        name = self._name(key)
        failpoint("state.put.before")
        self._values.put(name, bytes(value), numbered=numbered)
        failpoint("state.put.after")

    def numbers(self) -> dict[str, int]:
        """The numbers of all numbered values of the generation that this run has read, written or was given by `check_numbers`, by name."""
        return self._values.numbers

    def check_numbers(self, numbers: Mapping[str, int], *, together: Collection[Collection[str]] = ()) -> None:
        """Refuse values that are older than when an offset was saved, or missing: what they knew would be forgotten without a trace.

        Args:
            numbers: As the offset was saved with them (`numbers`).
            together: Keys of values of which the newest one counts, since it has what the others lack.

        Raises:
            HistoryLostError: RPL-7125 when one is older, or missing.
            ReplicatorError: As `read`.
        """
        groups = [[self._name(key) for key in keys] for keys in together]
        groups += [[name] for name in numbers if not any(name in group for group in groups)]
        self._values.adopt([name for group in groups for name in group if any(numbers.get(one) for one in group)])
        for group in groups:
            expected = max(numbers.get(name, 0) for name in group)
            found = [self._values.load(name) for name in group] if expected else []
            newest = max((value.number for value in found), default=0)
            if newest < expected:
                is_missing = all(value.value is None for value in found)
                raise _older(group[0], newest, expected, self._folder.place, is_missing=is_missing)
        self._values.expect(numbers)

    def refuse_older(self, key: str, than: str) -> None:
        """Refuse the value under `key`, which does not fit the one under `than` that was stored after a later version of it. Readers go on.

        Raises:
            HistoryLostError: RPL-7125.
        """
        if self._epoch:
            raise HistoryLostError(
                f"the state value {self._name(key)} at {self._folder.place} is missing, or older than {self._name(than)} was stored with:"
                " files of several moments were put together",
                code="RPL-7125",
                hint=_ONE_MOMENT,
            )

    def delete(self, key: str) -> None:
        """Remove the value under `key` and its previous version; nothing happens when there is none."""
        self._values.delete(self._name(key))

    def set_aside(self, key: str) -> None:
        """Let there be no value under `key`, whose files are damaged; the newest one is kept as `damaged-state-<key>`. Readers change nothing.

        For values that a run can do without. Until then `get` and `put` raise RPL-7120.

        Raises:
            ReplicatorError: As `put`.
        """
        if self._epoch:
            self._values.set_aside(self._name(key))

    def put_status(self, status: Mapping[str, Any]) -> None:
        """Write `state.json`: plain JSON for people and programs outside, replaced atomically.

        `read_status` reads a file of this run's own epoch. `state.json` itself may show a superseded run's status until
        the newer run writes its next one; its `epoch` says whose it is.

        Raises:
            ReplicatorError: As `put`.
        """
        content = json.dumps(status, indent=2, ensure_ascii=False, allow_nan=False).encode() + b"\n"
        failpoint("state.status.before")
        if self._epoch:
            self._values.write(_status_name(self._epoch), content, "save the status")
            self._tidy_status()
        self._values.write(STATUS, content, "save the status")
        try:
            self._fence()
        except FencedError:
            self._restore_status()
            raise
        failpoint("state.status.after")

    def read_status(self) -> dict[str, Any] | None:
        """What the newest run's `put_status` wrote last; None before the first time.

        Raises:
            NeedsUserError: RPL-7122 when the file is not the JSON object we write.
        """
        name = self._newest_status() or STATUS
        try:
            content = self._retry.run("read the status", lambda: self._folder.read(name))
            status = json.loads(content)
        except FileNotFoundError:
            return None
        except ValueError:
            status = None
        if isinstance(status, dict):
            return status
        raise NeedsUserError(
            f"{name} at {self._folder.place} is not a JSON object",
            code="RPL-7122",
            hint="delete it; the next run writes it again, and offsets do not depend on it",
        )

    def _newest_status(self) -> str | None:
        names = self._retry.run("read the status", lambda: self._folder.names("state."))
        return max(filter(_STATUS.fullmatch, names), default=None)

    def _restore_status(self) -> None:
        """This run was superseded while it wrote: put the newer run's status back."""
        newest = self._newest_status()
        if newest is not None and newest > _status_name(self._epoch):
            self._folder.replace(STATUS, self._folder.read(newest))

    def _tidy_status(self) -> None:
        """Delete the status files of earlier runs, once."""
        if not self._is_status_tidy:
            for name in self._retry.run("tidy the status", lambda: self._folder.names("state.")):
                if _STATUS.fullmatch(name) and name < _status_name(self._epoch):
                    self._retry.run("tidy the status", lambda name=name: self._folder.remove(name))  # type: ignore[misc]
            self._is_status_tidy = True

    def _name(self, key: str) -> str:
        name = _PREFIX + "".join(chr(b) if b in _PLAIN else f"%{b:02X}" for b in (self._scope + key).encode())
        if not key or len(name) > _LONGEST:
            raise BugError(
                f"a state key must have 1 to {_LONGEST} bytes (signs other than letters, digits, _ and - count three)",
                code="RPL-7121",
                hint="use a shorter key, for example a hash",
            )
        return name


def _older(name: str, found: int, expected: int, place: str, *, is_missing: bool) -> HistoryLostError:
    when = (
        f"of {moment(found):%Y-%m-%d %H:%M:%S} UTC" if found else "missing" if is_missing else "of an earlier release"
    )
    return HistoryLostError(
        f"the state value {name} at {place} is {when}, and the newest offset was saved with one of {moment(expected):%Y-%m-%d %H:%M:%S} UTC:"
        " its newest file is damaged or gone, or files of several moments were put together",
        code="RPL-7125",
        hint=_ONE_MOMENT,
    )


def _status_name(epoch: int) -> str:
    return f"state.{epoch:020d}.json"
