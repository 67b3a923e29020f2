"""The deletion of a replicator's whole state: a note that lets no run begin, then all files, the note last."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Self

from replicator_sdk.failpoint import failpoint, register
from replicator_state.lease.lease import Lease
from replicator_state.requests.request import who
from replicator_state.storage.folder import Folder
from replicator_state.storage.store_retry import StoreRetry

register("state.delete.noted", "state.delete.values", "state.delete.claims")

_NOTE = "deleting"
_CLAIMS = ("epoch.", "lease.")


@dataclass(frozen=True, slots=True)
class DeletionNote:
    """Says that a replicator is being deleted.

    Attributes:
        by: Who asked first, as `user@host`.
        at: When, UTC.
        only_state: Whether everything outside the state is done, so that parts of the state may be gone.
    """

    by: str
    at: datetime
    only_state: bool = False

    def to_bytes(self) -> bytes:
        """The file's content."""
        value = {"by": self.by, "at": self.at.isoformat(), "onlyState": self.only_state}
        return json.dumps(value, ensure_ascii=False, indent=2).encode() + b"\n"

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """The inverse of `to_bytes`; a damaged note is still one."""
        try:
            value = json.loads(content)
            return cls(str(value["by"]), datetime.fromisoformat(value["at"]), bool(value["onlyState"]))
        except (ValueError, KeyError, TypeError):
            return cls("unknown", datetime.fromtimestamp(0, UTC))


class Deletion:
    """Deletes the state of one replicator, of all its generations. Used by one thread, with the lease of the newest generation.

    A process that is killed at any step leaves the note, and another deletion does the rest.

    Args:
        home: The folder of all generations, with the note.
        retry: How long faults of the store are waited out.
    """

    def __init__(self, home: Folder, retry: StoreRetry) -> None:
        self._home = home
        self._retry = retry

    def note(self) -> DeletionNote | None:
        """The note; None unless the replicator is being deleted."""
        try:
            content = self._retry.run("read the note", lambda: self._home.read(_NOTE), wait_for_user=False)
        except FileNotFoundError:
            return None
        return DeletionNote.from_bytes(content)

    def begin(self, lease: Lease) -> None:
        """Store the note, unless it is there; from now on no run begins.

        Raises:
            FencedError: RPL-7131 when a newer run took over.
        """
        lease.check()
        if self.note() is None:
            self._write(DeletionNote(who(), datetime.now(UTC)))
        failpoint("state.delete.noted")

    def delete_values(self, lease: Lease, newest: Folder, others: list[Folder]) -> None:
        """Delete the former generations, and of the newest all but the claims of epochs, by which this and former runs know who may write.

        Raises:
            FencedError: RPL-7131 when a newer run took over.
        """
        lease.check()
        note = self.note()
        assert note is not None
        self._write(replace(note, only_state=True))
        for folder in others:
            self._retry.run("delete the state", folder.clear, wait_for_user=False)
        self._retry.run("delete the state", lambda: newest.clear(keep=_CLAIMS), wait_for_user=False)
        failpoint("state.delete.values")

    def finish(self, lease: Lease, rest: list[Folder]) -> None:
        """Delete the rest and the note; the lease, which nothing renews any more, is gone then.

        Raises:
            FencedError: RPL-7131 when a newer run took over.
        """
        lease.check()
        lease.dispose()
        for folder in rest:
            self._retry.run("delete the state", folder.clear, wait_for_user=False)
        failpoint("state.delete.claims")
        self._retry.run("delete the note", lambda: self._home.remove(_NOTE), wait_for_user=False)
        self._retry.run("delete the state", self._home.remove_empty, wait_for_user=False)

    def _write(self, note: DeletionNote) -> None:
        self._retry.run("store the note", lambda: self._home.replace(_NOTE, note.to_bytes()), wait_for_user=False)
