"""Chooses the saved offset that a rewind goes back to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from replicator_sdk.errors import NeedsUserError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from replicator_runtime.engine.run_state.run import Run
    from replicator_sdk import Offset
    from replicator_state import OffsetEntry, SavedOffset

_LIST = "list them with `replicator offsets list`; nothing was changed"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What an operator asks for: one of the two.

    Attributes:
        offset: A file's name, its number, or an offset, as `replicator offsets list` prints them.
        time: The newest offset that was saved at or before this moment; aware.
    """

    offset: str = ""
    time: datetime | None = None


@dataclass(frozen=True, slots=True)
class Choice:
    """The offset to go back to.

    Attributes:
        saved: As it is stored.
        offset: The source's offset in it.
        epoch: The first run that is known to have saved it: later runs began there or after it.
    """

    saved: SavedOffset
    offset: Offset
    epoch: int

    @property
    def name(self) -> str:
        """The name of its file, as `replicator offsets list` prints it."""
        return f"offset.{self.saved.commit_timestamp:020d}"


def choose(run: Run, wanted: Wanted) -> Choice:
    """The offset that is wanted. Its file, and those saved before it with the same offset, are read; of a time no later ones.

    Raises:
        NeedsUserError: RPL-1270 when there is none; RPL-7110 when its file cannot be read; RPL-1271 when it is no offset of
            this history.
    """
    entries = run.offsets.newest_first(wanted.time)
    for entry in entries:
        found = entry.offset
        if found is not None and _fits(run, entry, wanted):
            return _checked(run, Choice(found, run.read_offset(found.fields), found.epoch), entries)
        if found is None and wanted.offset and wanted.offset in {entry.name, entry.name.removeprefix("offset.")}:
            run.offsets.load(entry.name)  # says what is wrong with it
    what = f"saved at or before {wanted.time.isoformat()}" if wanted.time else f"{wanted.offset!r}"
    raise NeedsUserError(f"no offset {what} is kept", code="RPL-1270", hint=_LIST)


def newest_until(run: Run, choice: Choice, limit: Offset) -> str:
    """The name of the newest offset before `choice` that is not after `limit`; empty when none is kept."""
    for entry in run.offsets.newest_first():
        found = entry.offset
        if found is not None and found.commit_timestamp < choice.saved.commit_timestamp:
            offset = run.read_offset(found.fields)
            if offset < limit or offset == limit:
                return entry.name
    return ""


def _fits(run: Run, entry: OffsetEntry, wanted: Wanted) -> bool:
    if wanted.time is not None:
        return True
    assert entry.offset is not None
    names = {entry.name, entry.name.removeprefix("offset.")}
    return wanted.offset in names or wanted.offset == str(run.read_offset(entry.offset.fields))


def _checked(run: Run, choice: Choice, older: Iterator[OffsetEntry]) -> Choice:
    """The choice with its first run; see that the saved offset came past it, and that no superseded run saved it."""
    saved, epoch = run.saved_offset, choice.epoch
    assert saved is not None
    before = next((entry.offset for entry in older if entry.offset is not None), None)
    while before is not None and before.fields == choice.saved.fields:
        epoch = min(epoch, before.epoch)
        before = next((entry.offset for entry in older if entry.offset is not None), None)
    is_late = before is not None and before.epoch > choice.epoch
    if is_late or not (choice.offset < saved or choice.offset == saved):
        raise NeedsUserError(
            f"{choice.name} ({choice.offset}) is not on the way to the saved offset {saved}: it is after it, or a run saved it"
            " that was superseded",
            code="RPL-1271",
            hint=f"choose another one; {_LIST}",
        )
    return Choice(choice.saved, choice.offset, epoch)
