"""The files of letters: each has all letters of one table at one position, as an Arrow stream."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from replicator_runtime.dead_letter import Letter, Letters
from replicator_sdk import Position, TableId
from replicator_sdk.authoring.stored_form import check_form, release
from replicator_sdk.errors import SnapshotNeededError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from replicator_sdk import Offset
    from replicator_state import LaneFolder

_FORM: Final = 1
_HEAD_BYTES: Final = 1 << 16
"""A file's head takes less: the table, the names of its key's columns, a position and the number of letters."""
_NAME = re.compile(r"([0-9a-f]+)\.(\d+)\.(\d+)\.arrow")
_SCHEMA: Final = pa.schema(
    [
        pa.field("key", pa.list_(pa.string())),
        pa.field("operation", pa.string()),
        pa.field("columns", pa.list_(pa.string())),
        pa.field("code", pa.string()),
        pa.field("reason", pa.string()),
        pa.field("position", pa.string()),
        pa.field("sequence", pa.int64()),
        pa.field("timestamp", pa.int64()),
        pa.field("changes", pa.int64()),
        pa.field("row", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class LetterHead:
    """What a file says of its letters.

    Attributes:
        table: The table.
        key_columns: The names of its key's columns.
        position: JSON of the table's position.
    """

    table: TableId
    key_columns: tuple[str, ...]
    position: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Version:
    """All letters of a table from a position on, until that of the next version.

    Attributes:
        name: The file's name.
        epoch: Of the run that wrote it.
        number: Among those of that run.
        position: The table's position once the target has what leads to them.
        table: The table, as it was called then.
        key_columns: The names of the key's columns then.
        letters: By key.
    """

    name: str
    epoch: int
    number: int
    position: Position
    table: TableId
    key_columns: tuple[str, ...]
    letters: Letters

    @property
    def nbytes(self) -> int:
        """About how much they take."""
        return sum(letter.nbytes for letter in self.letters.values())


def copy_of(name: str) -> str | None:
    """The copy of a table that the file of that name belongs to; None when it is no file of letters."""
    found = _NAME.fullmatch(name)
    return None if found is None else found[1]


def file_name(copy_id: str, epoch: int, number: int) -> str:
    """The name of a file; no other run gives it."""
    return f"{copy_id}.{epoch}.{number}.arrow"


def content_of(version: Version) -> bytes:
    """The content of a version's file."""
    head = {
        "version": _FORM,
        "release": release(),
        "table": version.table.to_json(),
        "keyColumns": version.key_columns,
        "position": version.position.to_json(),
        "rows": len(version.letters),
    }
    letters = list(version.letters.values())
    columns = [pa.array([_cell(letter, field.name) for letter in letters], field.type) for field in _SCHEMA]
    schema = _SCHEMA.with_metadata({"head": json.dumps(head)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
    return bytes(sink.getvalue())


def version_of(name: str, content: bytes, read_offset: Callable[[Mapping[str, bytes]], Offset]) -> Version:
    """The inverse of `content_of`.

    Raises:
        SnapshotNeededError: RPL-4140 when the file is damaged.
        NeedsUserError: RPL-7161 when a later release wrote it.
    """
    head, letters = _parsed(name, content)
    position = Position.from_json(dict(head.position), read_offset)
    return Version(name, *_written(name), position, head.table, head.key_columns, letters)


def newest_files(folder: LaneFolder) -> list[tuple[LetterHead, Letters]]:
    """What was written last of each table, for people; reads only.

    Raises:
        ReplicatorError: As the state's store fails; as `version_of` for a damaged file.
    """
    by_table: dict[TableId, tuple[LetterHead, Letters]] = {}
    for name in _newest_names(folder):
        try:
            head, letters = _parsed(name, folder.read(name))
        except FileNotFoundError:  # a run has deleted it since it was listed
            continue
        by_table[head.table] = (head, letters)
    return list(by_table.values())


def row_counts(folder: LaneFolder) -> dict[TableId, int]:
    """How many letters the files of `newest_files` have, by table, as their heads say: what it costs does not grow with the letters.

    A damaged file counts nothing.

    Raises:
        ReplicatorError: As the state's store fails; RPL-7161 as `version_of`.
    """
    counts: dict[TableId, int] = {}
    for name in _newest_names(folder):
        try:
            table, rows = _count(folder, name)
        except (FileNotFoundError, SnapshotNeededError):  # a run has deleted it since it was listed, or it is damaged
            continue
        counts[table] = rows
    return counts


def _count(folder: LaneFolder, name: str) -> tuple[TableId, int]:
    head = _head_of(folder.read_start(name, _HEAD_BYTES))
    if head is None or "rows" not in head:  # of an earlier release
        found, letters = _parsed(name, folder.read(name))
        return found.table, len(letters)
    check_form(f"the file of dead letters {name}", head["version"], _FORM, head["release"])
    return TableId.from_json(head["table"]), int(head["rows"])


def _newest_names(folder: LaneFolder) -> list[str]:
    """What was written last of each copy, in the order of writing."""
    names: dict[str, str] = {}
    for name in sorted(filter(copy_of, folder.names()), key=_written):
        names[str(copy_of(name))] = name
    return sorted(names.values(), key=_written)


def _head_of(start: bytes) -> dict[str, Any] | None:
    """The head in the first bytes of a file; None where they do not have it whole."""
    try:
        head: dict[str, Any] = json.loads(pa.ipc.read_schema(pa.py_buffer(start)).metadata[b"head"])
    except (pa.ArrowException, ValueError, KeyError, TypeError, OSError):
        return None
    return head


def open_letters(folder: LaneFolder, copy_id: str) -> Letters:
    """The rows that are put aside of the table with this copy, as the file says that was written last.

    Raises:
        ReplicatorError: As `newest_files`.
    """
    names = sorted((name for name in folder.names() if copy_of(name) == copy_id), key=_written)
    for name in reversed(names):
        try:
            return _parsed(name, folder.read(name))[1]
        except FileNotFoundError:  # a run has deleted it since it was listed
            continue
    return {}


def _parsed(name: str, content: bytes) -> tuple[LetterHead, Letters]:
    try:
        with pa.ipc.open_stream(content) as reader:
            head: dict[str, Any] = json.loads(reader.schema.metadata[b"head"])
            rows = reader.read_all().to_pylist()
    except (pa.ArrowException, ValueError, KeyError, TypeError, OSError):
        raise damaged(name) from None
    check_form(f"the file of dead letters {name}", head["version"], _FORM, head["release"])
    letters = [Letter(**{**row, "key": tuple(row["key"]), "columns": tuple(row["columns"])}) for row in rows]
    found = LetterHead(TableId.from_json(head["table"]), tuple(head["keyColumns"]), head["position"])
    return found, {letter.key: letter for letter in letters}


def _written(name: str) -> tuple[int, int]:
    """The epoch of the run that wrote a file, and its number among those of that run."""
    found = _NAME.fullmatch(name)
    assert found is not None
    return int(found[2]), int(found[3])


def newest(versions: list[Version], at: Position | None = None) -> Version | None:
    """The version that is valid at a position, or the last one; None when there is none."""
    best: Version | None = None
    for version in versions:
        if at is not None and not version.position <= at:
            continue
        if best is None or _follows(version, best):
            best = version
    return best


def damaged(name: str) -> SnapshotNeededError:
    """The error for a file that is damaged, or was deleted by another program."""
    return SnapshotNeededError(
        f"the file of dead letters {name} is damaged or gone",
        code="RPL-4140",
        hint="nothing to do: the run copies the table again when it changes next; at once: `replicator dead-letters replay NAME TABLE`",
    )


def _follows(version: Version, other: Version) -> bool:
    """Whether it is of a later position, or of the same and written later."""
    if version.position == other.position:
        return (version.epoch, version.number) > (other.epoch, other.number)
    return other.position < version.position


def _cell(letter: Letter, name: str) -> Any:
    value = getattr(letter, name)
    return list(value) if isinstance(value, tuple) else value
