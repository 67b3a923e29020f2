"""Small durable values of one generation, and the status that the outside world reads."""

from __future__ import annotations

import hashlib
import json
import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from replicator_sdk.errors import BugError, NeedsUserError
from replicator_sdk.failpoint import failpoint, register
from replicator_state.folder import Folder
from replicator_state.offset_format import UnreadableError, UnreadableFile
from replicator_state.patience import Patience

register("state.put.before", "state.put.after", "state.put.between", "state.status.before", "state.status.after")

STATUS = "state.json"
_PREFIX = "state-"
_PREVIOUS = ".previous"
_MAGIC = b"RPLSTAT1"
_DIGEST = 32
_LONGEST = 200
_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
_log = logging.getLogger("replicator.state")


@dataclass(frozen=True, slots=True)
class StateValue:
    """A stored value; `recovered_from` names the damaged newer file when it is the previous version."""

    value: bytes
    recovered_from: UnreadableFile | None = None


class StateStore:
    """Keeps values under keys (`state-<key>`) and the status (`state.json`).

    Every write is atomic and durable when it returns. A value's file carries a checksum, and the version before it
    stays in `state-<key>.previous`, to which a damaged file falls back, with a warning. One writer at a time (the lease
    holder), any number of readers; safe from any thread. Slow: not for every batch.

    Args:
        folder: The generation's folder.
        patience: How long faults of the store are waited out.
        fence: Raises `FencedError` when this run was superseded; asked before every change. None for readers.
        scope: Put before every key, so that the keys of source, target and runtime never meet.
    """

    def __init__(
        self, folder: Folder, patience: Patience, *, fence: Callable[[], None] | None = None, scope: str = ""
    ) -> None:
        self._folder = folder
        self._patience = patience
        self._fence = fence or (lambda: None)
        self._scope = scope
        self._lock = threading.Lock()

    def scoped(self, scope: str) -> StateStore:
        """A view of the same store whose keys begin with `scope` and a dot."""
        return StateStore(self._folder, self._patience, fence=self._fence, scope=f"{self._scope}{scope}.")

    def get(self, key: str) -> bytes | None:
        """The value under `key`, None when there is none; `read` tells whether it is the previous version."""
        found = self.read(key)
        return found.value if found else None

    def read(self, key: str) -> StateValue | None:
        """The value under `key` and whether it had to be recovered; None when there is none.

        Raises:
            NeedsUserError: RPL-7120 when both versions are damaged; a damaged value never counts as absent.
        """
        name = self._name(key)
        value, problem = self._load(name)
        if value is not None:
            return StateValue(value)
        previous, previous_problem = self._load(name + _PREVIOUS)
        if previous is not None:
            bad = UnreadableFile(name, problem or "it is missing")
            _log.warning(
                "state file %s: %s; the version before it is used", name, bad.reason, extra={"code": "RPL-7123"}
            )
            return StateValue(previous, bad)
        if problem is None and previous_problem is None:
            return None
        raise NeedsUserError(
            f"the state file {name} at {self._folder.place} cannot be read ({problem or previous_problem}), "
            "nor the version before it",
            code="RPL-7120",
            hint="restore it from a backup, or deploy the pipeline anew under a new generation",
        )

    def put(self, key: str, value: bytes) -> None:
        """Store `value` under `key`; the present value becomes the previous one.

        Raises:
            FencedError: When a newer run took over; nothing is changed.
            NeedsUserError: When the store is full (RPL-7103) or refuses (RPL-7104).
            RetryableError: When it failed for the configured time (RPL-7105).
        """
        name = self._name(key)
        body = _MAGIC + bytes(value)
        content = body + hashlib.sha256(body).digest()
        failpoint("state.put.before")
        with self._lock:
            present, _ = self._load(name)
            if present is not None:  # a damaged one must not push out the last good version
                old = _MAGIC + present
                self._write(name + _PREVIOUS, old + hashlib.sha256(old).digest(), "keep the state before")
            failpoint("state.put.between")
            self._write(name, content, "save state")
        failpoint("state.put.after")

    def delete(self, key: str) -> None:
        """Remove the value under `key` and its previous version; nothing happens when there is none."""
        name = self._name(key)
        with self._lock:
            self._fence()
            # The previous version first: a crash in between leaves the value, not a value risen from the past.
            for file in (name + _PREVIOUS, name):
                self._patience.run("delete state", lambda file=file: self._folder.remove(file))  # type: ignore[misc]

    def put_status(self, status: Mapping[str, Any]) -> None:
        """Write `state.json`: plain JSON for people and programs outside, replaced atomically.

        Raises:
            ReplicatorError: As `put`.
        """
        content = json.dumps(status, indent=2, ensure_ascii=False, allow_nan=False).encode() + b"\n"
        failpoint("state.status.before")
        self._write(STATUS, content, "save the status")
        failpoint("state.status.after")

    def read_status(self) -> dict[str, Any] | None:
        """What `put_status` wrote last; None before the first time.

        Raises:
            NeedsUserError: RPL-7122 when the file is not the JSON object we write.
        """
        try:
            content = self._patience.run("read the status", lambda: self._folder.read(STATUS))
            status = json.loads(content)
        except FileNotFoundError:
            return None
        except ValueError:
            status = None
        if isinstance(status, dict):
            return status
        raise NeedsUserError(
            f"{STATUS} at {self._folder.place} is not a JSON object",
            code="RPL-7122",
            hint="delete it; the next run writes it again, and offsets do not depend on it",
        )

    def _write(self, name: str, content: bytes, what: str) -> None:
        self._fence()
        self._patience.run(what, lambda: self._folder.replace(name, content))

    def _load(self, name: str) -> tuple[bytes | None, str | None]:
        """The file's value, or why there is none: (None, None) when it is absent."""
        try:
            return _open(self._patience.run("read state", lambda: self._folder.read(name))), None
        except FileNotFoundError:
            return None, None
        except UnreadableError as error:
            return None, str(error)

    def _name(self, key: str) -> str:
        name = _PREFIX + "".join(chr(b) if b in _PLAIN else f"%{b:02X}" for b in (self._scope + key).encode())
        if not key or len(name) > _LONGEST:
            raise BugError(
                f"a state key must have 1 to {_LONGEST} bytes (signs other than letters, digits, _ and - count three)",
                code="RPL-7121",
                hint="use a shorter key, for example a hash",
            )
        return name


def _open(content: bytes) -> bytes:
    body, digest = content[:-_DIGEST], content[-_DIGEST:]
    if hashlib.sha256(body).digest() != digest:
        raise UnreadableError("the checksum is wrong")
    if not body.startswith(_MAGIC[:-1]):
        raise UnreadableError("it is not a state file")
    if not body.startswith(_MAGIC):
        hint = "run the version of replicator that wrote it, or a later one"
        raise NeedsUserError("a state file is of a later version", code="RPL-7160", hint=hint)
    return body[len(_MAGIC) :]
