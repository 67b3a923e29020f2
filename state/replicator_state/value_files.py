"""Files of small values: each run writes files of its own epoch only, so no late write of an earlier run is ever read.

A run that was paused between its look at the lease and its write (SIGSTOP, a stalled network) writes after its successor
has read. So the files of epoch 7 are `<name>.<7, 20 digits>` and `….previous`, and the highest epoch counts. The first
time a run reads or writes a value it *adopts* it: it copies the value of the highest epoch before its own to its own
files and deletes the older ones. From then on it reads its own files only, and so do its successors. Epoch 0 is the
layout of earlier versions, and of a store without a lease: `<name>` and `<name>.previous`.

A value may be *numbered*: each of its versions has a higher number than all numbered ones before it, of any value. An offset is
saved with the numbers of its time, by which a later run notices a value that is older: the version before a damaged file, or a
file of another backup.
"""

from __future__ import annotations

import hashlib
import logging
import re
import struct
import threading
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from replicator_sdk.errors import NeedsUserError
from replicator_sdk.failpoint import failpoint, register
from replicator_state.offsets.offset_format import UnreadableError, UnreadableFile
from replicator_state.storage.folder import Folder
from replicator_state.storage.store_retry import StoreRetry

register("state.put.between", "state.adopt.before", "state.adopt.after")

UNREADABLE_STATE = "RPL-7120"
_PREVIOUS = ".previous"
_FILE = re.compile(r"(?P<name>state-[^.]+)(?:\.(?P<epoch>\d{20}))?(?:\.previous)?")
_MAGIC = b"RPLSTAT1"
_NUMBERED = b"RPLSTAT2"
_NUMBER = struct.Struct(">q")
_ABSENT = b"RPLNONE1"
_DIGEST = 32
_LOOKS = 5
_ADOPTED_AT_ONCE = 8
_REMEMBERED_BYTES = 32 << 20
_log = logging.getLogger("replicator.state")


@dataclass(frozen=True, slots=True)
class Loaded:
    """What is stored under a name.

    Attributes:
        value: The value; None when there is none.
        recovered_from: The damaged newer file when `value` is the version before it.
        number: Of the value; 0 where it is not numbered.
    """

    value: bytes | None
    recovered_from: UnreadableFile | None = None
    number: int = 0


class ValueFiles:
    """The files of all values of one generation, for one run. Safe from any thread.

    A run lists the folder once, at the first value; after that a read is one file and a write is two.

    Args:
        folder: The generation's folder.
        retry: How long faults of the store are waited out.
        epoch: The writer's lease epoch; 0 for readers, which adopt nothing and list the folder for each value.
        fence: Raises `FencedError` when this run was superseded.
    """

    def __init__(self, folder: Folder, retry: StoreRetry, epoch: int, fence: Callable[[], None]) -> None:
        self.folder = folder
        self._retry = retry
        self._epoch = epoch
        self._fence = fence
        self._lock = threading.RLock()
        self._listed: dict[str, set[int]] | None = None
        self._own: dict[str, UnreadableFile | None] = {}
        self._written: dict[str, bytes] = {}
        self._numbers: dict[str, int] = {}

    @property
    def numbers(self) -> dict[str, int]:
        """The highest number of each numbered value that is known."""
        with self._lock:
            return dict(self._numbers)

    def expect(self, numbers: Mapping[str, int]) -> None:
        """These numbers exist: later ones are higher."""
        with self._lock:
            for name, number in numbers.items():
                self._numbers[name] = max(number, self._numbers.get(name, 0))

    def load(self, name: str) -> Loaded:
        """The value under `name`.

        Raises:
            FencedError: When a newer run took over and this one has not read the value before.
            NeedsUserError: RPL-7120 when no version of it can be read.
        """
        with self._lock:
            if not self._epoch:
                return self._read_beside_a_writer(name)
            if name not in self._own:
                self._adopt(name)
            loaded = self._first_readable(name, [self._epoch])
            if loaded.number:
                self.expect({name: loaded.number})
            return replace(loaded, recovered_from=loaded.recovered_from or self._own[name])

    def adopt(self, names: Collection[str]) -> None:
        """Adopt these values, several at once: each takes the time of some writes that are durable one after the other.

        Raises:
            FencedError: As `load`.
            NeedsUserError: As `load`.
        """
        with self._lock:
            missing = [name for name in dict.fromkeys(names) if self._epoch and name not in self._own]
            if not missing:
                return
            self._epochs(missing[0])  # lists the folder, for all
            with ThreadPoolExecutor(_ADOPTED_AT_ONCE, thread_name_prefix="adopt") as pool:
                for _ in pool.map(self._adopt, missing):
                    pass

    def put(self, name: str, value: bytes, *, numbered: bool = False) -> None:
        """Store `value` under `name`; the present value becomes the previous one.

        Args:
            name: Its name.
            value: The value.
            numbered: Whether it gets a number; one that had a number always gets one.

        Raises:
            FencedError: When a newer run took over; no later run reads what this call wrote.
        """
        with self._lock:
            self._adopt_once(name)
            file = self._file(name, self._epoch)
            present = self._present(name, file)
            if present is not None:
                # A damaged one must not push out the last good version.
                self._keep(file, present)
            failpoint("state.put.between")
            number = self._next_number() if numbered or name in self._numbers else 0
            content = _sealed(_body(value, number))
            self._written.pop(name, None)
            self.write(file, content, "save state")
            if number:
                self._numbers[name] = number
            if len(content) <= _REMEMBERED_BYTES:
                self._written[name] = content
            self._own[name] = None
            self._fence()

    def delete(self, name: str) -> None:
        """Remove the value under `name` and its previous version.

        Raises:
            FencedError: When a newer run took over; no later run notices this call.
        """
        with self._lock:
            self._adopt_once(name)
            file = self._file(name, self._epoch)
            # The previous version first: a crash in between leaves the value, not an older one.
            self._remove(file + _PREVIOUS)
            if self._epoch:
                self.write(file, _sealed(_ABSENT), "delete state")
                self._own[name] = None
            else:
                self._remove(file)
            self._fence()

    def set_aside(self, name: str) -> None:
        """Let there be no value under `name`, and keep its newest file as `damaged-<name>`, with a warning; a kill leaves the rest to the next call.

        Raises:
            FencedError: When a newer run took over; no later run notices this call.
        """
        with self._lock:
            own, kept = self._file(name, self._epoch), f"damaged-{name}"
            epochs = (self._epoch, *self._before_mine(name))
            files = [self._file(name, epoch) + part for epoch in epochs for part in ("", _PREVIOUS)]
            newest = next((content for file in files if (content := self._raw(file)) is not None), None)
            if newest is not None:
                self.write(kept, newest, "keep a damaged state file")
            self.write(own, _sealed(_ABSENT), "set damaged state aside")
            self._remove(own + _PREVIOUS)
            self._remove_older(name)
            self._written.pop(name, None)
            self._own[name] = None
            self._fence()
            _log.warning(
                "the state value %s cannot be read: it begins again, and the damaged file is kept as %s",
                name,
                kept,
                extra={"code": "RPL-7124"},
            )

    def _next_number(self) -> int:
        """Above all known ones, also when the clock was set back: the microseconds since 1970, for people."""
        return max(time.time_ns() // 1000, *(number + 1 for number in self._numbers.values()), 1)

    def write(self, file: str, content: bytes, what: str) -> None:
        """Replace `file`, unless a newer run took over; asks so before each try."""

        def attempt() -> None:
            """One try."""
            self._fence()
            self.folder.replace(file, content)

        self._retry.run(what, attempt)

    def _present(self, name: str, file: str) -> bytes | None:
        """The file's content when it is a whole value; what this run wrote last is known without its checksum."""
        content = self._raw(file)
        try:
            known = content is not None and (content == self._written.get(name) or _opened(content) != _ABSENT)
        except UnreadableError:
            return None
        return content if known else None

    def _keep(self, file: str, content: bytes) -> None:
        """Let the previous version be what `file` has now; durable with what is written next."""

        def attempt() -> None:
            """One try."""
            self._fence()
            self.folder.keep(file, file + _PREVIOUS, content)

        self._retry.run("keep the state before", attempt)

    def _read_beside_a_writer(self, name: str) -> Loaded:
        """The newest version; a starting run may delete the files just listed, once it has copied them."""
        loaded = Loaded(None)
        for _ in range(_LOOKS):
            epochs = self._epochs(name)
            loaded = self._first_readable(name, epochs)
            if loaded.value is not None or not epochs:
                break
        return loaded

    def _adopt_once(self, name: str) -> None:
        if self._epoch and name not in self._own:
            self._adopt(name)

    def _adopt(self, name: str) -> None:
        """Make the value this run begins with its own, also that there is none."""
        found = self._first_readable(name, self._epochs(name))
        own = self._file(name, self._epoch)
        if not self._retry.run("read state", lambda: self.folder.exists(own)):
            content = _sealed(_ABSENT if found.value is None else _body(found.value, found.number))
            failpoint("state.adopt.before")
            self.write(own, content, "take over state")
            if found.value is not None:
                self.write(own + _PREVIOUS, content, "take over state")
            failpoint("state.adopt.after")
        self._remove_older(name)
        self._own[name] = found.recovered_from

    def _before_mine(self, name: str) -> list[int]:
        return [epoch for epoch in self._epochs(name) if epoch < self._epoch]

    def _remove_older(self, name: str) -> None:
        """Remove the files of earlier runs."""
        for epoch in self._before_mine(name):
            for file in (self._file(name, epoch) + _PREVIOUS, self._file(name, epoch)):
                self._remove(file)

    def _epochs(self, name: str) -> list[int]:
        """The epochs that have files of this value, highest first; of a run, as of its first value."""
        if self._listed is None or not self._epoch:
            self._listed = {}
            for file in self._retry.run("list the state", lambda: self.folder.names("state-")):
                if match := _FILE.fullmatch(file):
                    self._listed.setdefault(match["name"], set()).add(int(match["epoch"] or 0))
        return sorted(self._listed.get(name, ()), reverse=True)

    def _first_readable(self, name: str, epochs: list[int]) -> Loaded:
        """The newest version that can be read; one before a damaged or missing file, with a warning."""
        bad: UnreadableFile | None = None
        missing: UnreadableFile | None = None
        for epoch in epochs:
            file = self._file(name, epoch)
            for candidate in (file, file + _PREVIOUS):
                content, problem = self._read(candidate)
                if content is not None:
                    return self._found(content, bad or missing)
                if problem:
                    bad = bad or UnreadableFile(candidate, problem)
                elif candidate == file:
                    missing = missing or UnreadableFile(file, "it is missing")
        if bad is None:
            return Loaded(None)
        raise NeedsUserError(
            f"the state file {bad.name} at {self.folder.place} cannot be read ({bad.reason}), nor the version before it",
            code=UNREADABLE_STATE,
            hint="restore it from a backup, or `replicator reset PIPELINE`: every table is copied again",
        )

    def _found(self, content: bytes, bad: UnreadableFile | None) -> Loaded:
        if bad:
            _log.warning(
                "state file %s: %s; the version before it is used", bad.name, bad.reason, extra={"code": "RPL-7123"}
            )
        if content == _ABSENT:
            return Loaded(None, bad)
        value, number = content[len(_MAGIC) :], 0
        if content.startswith(_NUMBERED):
            (number,), value = _NUMBER.unpack_from(value), value[_NUMBER.size :]
        return Loaded(value, bad, number)

    def _read(self, file: str) -> tuple[bytes | None, str | None]:
        """The file's checked content, or why there is none: (None, None) when it is absent."""
        content = self._raw(file)
        try:
            return None if content is None else _opened(content), None
        except UnreadableError as error:
            return None, str(error)

    def _raw(self, file: str) -> bytes | None:
        """The file's content, checked by no one; None when it is absent."""
        try:
            return self._retry.run("read state", lambda: self.folder.read(file))
        except FileNotFoundError:
            return None

    def _remove(self, file: str) -> None:
        def attempt() -> None:
            """One try."""
            self._fence()
            self.folder.remove(file)

        self._retry.run("delete state", attempt)

    @staticmethod
    def _file(name: str, epoch: int) -> str:
        return f"{name}.{epoch:020d}" if epoch else name


def _sealed(body: bytes) -> bytes:
    return body + hashlib.sha256(body).digest()


def _body(value: bytes, number: int) -> bytes:
    return _NUMBERED + _NUMBER.pack(number) + value if number else _MAGIC + value


def _opened(content: bytes) -> bytes:
    """The content without its checksum; it begins with one of the three marks."""
    body, digest = content[:-_DIGEST], content[-_DIGEST:]
    if hashlib.sha256(body).digest() != digest:
        raise UnreadableError("the checksum is wrong")
    if body.startswith(_MAGIC) or body == _ABSENT:
        return body
    if body.startswith(_NUMBERED) and len(body) >= len(_NUMBERED) + _NUMBER.size:
        return body
    if not body.startswith(_MAGIC[:-1]):
        raise UnreadableError("it is not a state file")
    hint = "run the version of replicator that wrote it, or a later one"
    raise NeedsUserError("a state file is of a later version", code="RPL-7160", hint=hint)
