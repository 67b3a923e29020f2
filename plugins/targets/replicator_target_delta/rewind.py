"""Brings a table back to an earlier version, by a commit of this run that holds rows, columns and progress of that version."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

from replicator_sdk.authoring.rewinds.table_rewind import Found, TableRewind
from replicator_sdk.errors import FencedError, NeedsUserError, ReplicatorError
from replicator_sdk.failpoint import failpoint, register
from replicator_target_delta.log.removed_names import names_of
from replicator_target_delta.schema.table_form import KEY_PROPERTIES, names_keys

if TYPE_CHECKING:
    from replicator_sdk.authoring.table_ownership import TableRecord
    from replicator_sdk.offset import Position
    from replicator_sdk.target import TableProgress
    from replicator_target_delta.files.live_files import DataFile
    from replicator_target_delta.log.table_state import State
    from replicator_target_delta.table import Attempt, TargetTable

register("delta.rewind.before", "delta.rewind.after")
_AT_ONCE: Final = 16


class DeltaRewind(TableRewind["Attempt", int, "State"]):
    """Brings one table back. Called under the table's lock."""

    def __init__(self, table: TargetTable) -> None:
        super().__init__(table.ownership)
        self._table = table
        self._log = table.log

    def begin(self) -> Attempt:
        """The newest version, read from storage."""
        self._log.forget()
        return self._table.begin()

    def name_of(self, version: int) -> str:
        """The version, for people."""
        return f"version {version}"

    def rows(self, newest: Attempt, version: int, content: State) -> tuple[int | None, int | None]:  # noqa: ARG002 - the content says enough
        """How many rows the table has, and that version, by the numbers in the log."""
        return _rows(newest.state), _rows(content)

    def content(self, newest: Attempt, version: int) -> State:
        """The version, with the files that the table does not have now."""
        then = self._state(version)
        self._check_files(_changes(newest.state, then)[0])
        return then

    def commit(
        self, newest: Attempt, version: int, content: State, record: TableRecord, progress: TableProgress
    ) -> None:
        """Put files in and out, so that the table has those of that version."""
        del version  # the content is of it
        add, remove = _changes(newest.state, content)
        failpoint("delta.rewind.before")
        self._table.commit(
            newest,
            progress,
            add=add,
            remove=remove,
            metadata=_metadata(newest.state, content),
            dropped=record.dropped,
            unmatched=content.unmatched,
        )
        self._log.forget()  # what is read next comes from storage
        failpoint("delta.rewind.after")

    def newest_until(self, newest: Attempt, position: Position) -> Found[int]:
        """Walk back from the newest version: positions fall with the version, but for commits like ours."""
        following, first = newest.record, newest.state.version
        assert following is not None
        after = first + 1
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="versions") as pool:
            for top in range(first, -1, -_AT_ONCE):
                versions = range(top, max(-1, top - _AT_ONCE), -1)
                for version, record in zip(versions, pool.map(self._record, versions), strict=True):
                    if record is None:
                        continue  # another program's commit, such as a changed property: it belongs to the version before
                    if record.is_until(position):
                        return self._checked(Found(after - 1, record, following))
                    following, after = record, version
        return Found(None, None, following)

    def _record(self, version: int) -> TableRecord | None:
        """What the commit of `version` says of the table; None when it says nothing.

        Raises:
            NeedsUserError: RPL-3411 when it is gone.
        """
        try:
            stored = self._log.stored_by(version)
        except FileNotFoundError:
            raise self.gone(f"the commit of version {version} was deleted") from None
        return None if stored is None else self._table.read_record(stored)

    def _checked(self, found: Found[int]) -> Found[int]:
        assert found.record is not None
        if found.record.table != self._table.table:
            raise self.gone(f"its name was {found.record.table} then")
        return found

    def _state(self, version: int) -> State:
        try:
            return self._log.state_at(version)
        except FencedError:
            raise
        except ReplicatorError as error:
            raise self.gone(f"version {version} cannot be read: {error.message}") from error

    def _check_files(self, files: list[DataFile]) -> None:
        """See that files which the table is to have again are there.

        Raises:
            NeedsUserError: RPL-3411 when some were deleted.
        """
        if not files:
            return
        there = {file.name for file in self._log.storage.data_files()}
        lost = [file for file in files if any(names.isdisjoint(there) for names in _names(file))]
        if lost:
            raise self.gone(f"{len(lost)} of its files were deleted (VACUUM)")

    def gone(self, why: str) -> NeedsUserError:
        """Returns the error for a table that cannot go back."""
        return NeedsUserError(
            f"the table cannot go back to that position: {why}",
            code="RPL-3411",
            table=str(self._table.table),
            hint="choose a later offset from `replicator offsets list`, or copy the table again:"
            " `replicator table resync NAME TABLE`",
        )


def _names(file: DataFile) -> list[set[str]]:
    """The possible names of each file that must exist: the data file, and its deletion vector's."""
    vector = file.add.get("deletionVector")
    own = names_of(file.path, None)
    return [own, *([more] if (more := names_of(file.path, vector) - own) else [])]


def _changes(now: State, then: State) -> tuple[list[DataFile], list[DataFile]]:
    """Files to add and to remove, so that the table has those of `then`, with their deletion vectors."""
    before = {_identity(file): file for file in now.files.all_actions()}
    after = {_identity(file): file for file in then.files.all_actions()}
    add = [file for key, file in after.items() if key not in before]
    return add, [file for key, file in before.items() if key not in after]


def _identity(file: DataFile) -> tuple[Any, ...]:
    vector = file.add.get("deletionVector") or {}
    return file.path, *(vector.get(key) for key in ("storageType", "pathOrInlineDv", "offset"))


def _metadata(now: State, then: State) -> dict[str, Any] | None:
    """The columns of `then` under the properties of now: the owner's stay, and no column's number is given twice.

    The keys that the properties name to readers are those of `then`: the mode may have changed since.
    """
    properties, former = now.metadata["configuration"], then.metadata["configuration"]
    if names_keys(properties) or names_keys(former):  # else properties of these names are the owner's
        keys = {name: value for name, value in former.items() if name in KEY_PROPERTIES and names_keys(former)}
        properties = {name: value for name, value in properties.items() if name not in KEY_PROPERTIES} | keys
    if now.metadata["schemaString"] == then.metadata["schemaString"] and properties == now.metadata["configuration"]:
        return None
    return {**now.metadata, "schemaString": then.metadata["schemaString"], "configuration": properties}


def _rows(state: State) -> int | None:
    """How many rows a version has, by the numbers in its log; None where several rows may be of one key."""
    if names_keys(state.metadata["configuration"]):
        return None
    counts = [file.rows - int((file.vector or {}).get("cardinality", 0)) for file in state.files if file.rows >= 0]
    return sum(counts) if len(counts) == len(state.files) else None
