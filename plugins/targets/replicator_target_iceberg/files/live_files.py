"""The data files of a table's version, and which of them may hold a key."""

from __future__ import annotations

import itertools
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from replicator_sdk.batch import combined
from replicator_sdk.errors import NeedsUserError
from replicator_target_iceberg.arrangement.partitioning import WHOLE_TABLE, Partition, Partitioning
from replicator_target_iceberg.files.data_file import PAST, NewFile, has_range, plain


@dataclass(frozen=True, slots=True)
class DeleteRef:
    """A file that says which rows of data files are gone. Immutable.

    Attributes:
        location: Where it is.
        format: `parquet`, or `puffin` for deletion vectors.
        size: Of the file, in bytes.
        records: How many rows it names.
        data_file: The only data file that it is about; empty when it may be about several.
        offset: Where in the file the vector begins; None for Parquet.
        length: How long it is.
        partition: The partition of the data files that it is about.
    """

    location: str
    format: str
    size: int
    records: int
    data_file: str = ""
    offset: int | None = None
    length: int | None = None
    partition: Partition = WHOLE_TABLE


@dataclass(frozen=True, slots=True)
class LiveFile:
    """A data file of a version. Immutable.

    Attributes:
        location: Where it is.
        size: In bytes.
        rows: How many it holds, gone ones included.
        lowest: The lowest value of the column that files are chosen by; None when it is not known.
        highest: The highest one.
        deletes: What says which of its rows are gone.
        partition: The partition that all its rows are in.
    """

    location: str
    size: int
    rows: int
    lowest: Any = None
    highest: Any = None
    deletes: tuple[DeleteRef, ...] = ()
    partition: Partition = WHOLE_TABLE

    @classmethod
    def of(cls, new: NewFile) -> LiveFile:
        """A file that was committed."""
        return cls(new.location, new.size, new.rows, new.lowest, new.highest, partition=new.partition)

    @property
    def is_past(self) -> bool:
        """Whether it has ended versions only; other programs may have put them together with current ones."""
        return self.location.rpartition("/")[2].startswith(PAST)

    @property
    def gone(self) -> int:
        """How many rows are gone, at most."""
        return sum(found.records for found in self.deletes if found.data_file)


class LiveFiles:
    """The files of one version, by location; not changed.

    Args:
        files: All of them.
        specs: The table's partition specifications by their numbers; without one its files are not chosen by partition.
    """

    def __init__(self, files: Iterable[LiveFile], specs: Mapping[int, Partitioning] | None = None) -> None:
        self._files = {file.location: file for file in files}
        self.specs = specs or {}

    def __len__(self) -> int:
        return len(self._files)

    def __iter__(self) -> Any:
        return iter(self._files.values())

    def __getitem__(self, location: str) -> LiveFile:
        return self._files[location]

    def changed(
        self, add: Iterable[NewFile], remove: Iterable[str], deletes: dict[str, tuple[DeleteRef, ...]]
    ) -> LiveFiles:
        """The files of the version after a commit: some more, some less, some with other deletes."""
        gone = set(remove)
        kept = [
            replace(file, deletes=deletes[file.location]) if file.location in deletes else file
            for file in self
            if file.location not in gone
        ]
        return LiveFiles([*kept, *map(LiveFile.of, add)], self.specs)

    def that_may_hold(self, keys: pa.Table) -> list[LiveFile]:
        """The files in whose partition and range of the first key column at least one of the keys may be; all that say no range, too."""
        files = self._of_partitions(keys)
        kind = keys.schema.field(0).type
        if not files or not has_range(kind):
            return files
        values = combined(keys.column(0))
        if values.null_count:
            return files  # ranges say nothing of NULL
        sought = plain(values).take(pc.sort_indices(plain(values)))
        ranged = [f for f in files if f.lowest is not None and f.highest is not None]
        first, last = _places(sought, [f.lowest for f in ranged], [f.highest for f in ranged])
        held = {f.location for f, low, high in zip(ranged, first, last, strict=True) if low < high}
        return [f for f in files if f.lowest is None or f.highest is None or f.location in held]

    def _of_partitions(self, keys: pa.Table) -> list[LiveFile]:
        """The files in whose partition one of the keys may be."""
        if not any(spec.fields for spec in self.specs.values()):
            return list(self)
        by_spec: dict[int, list[LiveFile]] = defaultdict(list)
        for file in self:
            by_spec[file.partition.spec].append(file)
        kept: list[LiveFile] = []
        for number, files in by_spec.items():
            spec = self.specs.get(number, Partitioning())
            partitions = list(dict.fromkeys(file.partition for file in files))
            chosen = set(itertools.compress(partitions, spec.that_may_hold(keys, partitions)))
            kept += [file for file in files if file.partition in chosen]
        return kept


def _places(
    sought: pa.Array, lowest: Sequence[Any], highest: Sequence[Any]
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """For each file where its range begins and ends among the ascending keys."""
    if pa.types.is_string(sought.type):  # Arrow sorts text by its bytes, and so do these
        words = np.array(sought.cast(pa.binary()).to_numpy(zero_copy_only=False), dtype=object)
        low, high = (np.array([text.encode() for text in ends], dtype=object) for ends in (lowest, highest))
    else:
        words = sought.to_numpy()
        low, high = np.array(lowest, np.int64), np.array(highest, np.int64)
    return np.searchsorted(words, low, "left"), np.searchsorted(words, high, "right")


def parse_task(text: str, chosen_by: int | None, kind: pa.DataType | None) -> LiveFile:
    """A file of Iceberg's own list, in its JSON form.

    Raises:
        NeedsUserError: When the file or what is deleted from it is written in a form that this target does not read.
    """
    task = json.loads(text)
    data = task["data-file"]
    partition = _partition(data)
    if data["file-format"].lower() != "parquet":
        raise _unreadable(f"a data file in the form {data['file-format']}")
    deletes = tuple(_delete(found) for found in task["delete-files"])
    lowest, highest = (_bound(data.get(name), chosen_by, kind) for name in ("lower-bounds", "upper-bounds"))
    size, rows = data["file-size-in-bytes"], data["record-count"]
    return LiveFile(data["file-path"], size, rows, lowest, highest, deletes, partition)


def _partition(file: dict[str, Any]) -> Partition:
    """Iceberg's own list has the values in the order of the specification's fields."""
    return Partition(file["spec-id"], tuple(file.get("partition") or ()))


def _delete(found: dict[str, Any]) -> DeleteRef:
    form = found["file-format"].lower()
    if found["content"].lower().replace("_", "-") != "position-deletes" or form not in {"parquet", "puffin"}:
        raise _unreadable(f"{found['content'].lower().replace('_', ' ')} in the form {form}")
    return DeleteRef(
        found["file-path"],
        form,
        found["file-size-in-bytes"],
        found["record-count"],
        found.get("referenced-data-file", ""),
        found.get("content-offset"),
        found.get("content-size-in-bytes"),
        _partition(found),
    )


def _unreadable(what: str) -> NeedsUserError:
    return NeedsUserError(
        f"another program has written {what}, which this target does not read",
        code="RPL-3425",
        hint="have that program write the table's files again as Parquet, or Spark: `CALL CATALOG.system.rewrite_data_files(table => 'NAME', options =>"
        " map('rewrite-all', 'true'))`",
    )


def _bound(bounds: dict[str, Any] | None, chosen_by: int | None, kind: pa.DataType | None) -> Any:
    """One end of a file's range, from Iceberg's bytes."""
    if bounds is None or chosen_by not in bounds["keys"] or kind is None or not has_range(kind):
        return None
    raw = bytes.fromhex(bounds["values"][bounds["keys"].index(chosen_by)])
    if not pa.types.is_string(kind):
        return int.from_bytes(raw, "big" if pa.types.is_decimal(kind) else "little", signed=True)
    try:  # a text is cut short at its end: the lower end downwards, the upper one upwards
        return raw.decode()
    except UnicodeDecodeError:  # by a program that cuts inside of a character
        return None
