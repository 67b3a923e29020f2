"""How new data files of a table are written, as its metadata asks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from replicator_target_iceberg.arrangement.partitioning import Partitioning
from replicator_target_iceberg.arrangement.sorting import Sorting
from replicator_target_iceberg.config import CODEC, CODECS, LEVEL

_LEVELED: Final = frozenset({"zstd", "gzip", "brotli"})


@dataclass(frozen=True, slots=True)
class FileForm:
    """Partitions, order and compression of new files. Immutable and picklable.

    Attributes:
        partitioning: The specification by which rows are distributed over files.
        sorting: The order of the rows in each file.
        codec: pyarrow's name of the compression.
        level: Of the compression; None for the codec's own.
    """

    partitioning: Partitioning
    sorting: Sorting
    codec: str = "zstd"
    level: int | None = None

    @classmethod
    def of(
        cls,
        partitioning: Partitioning,
        sorting: Sorting,
        columns: Iterable[dict[str, Any]],
        properties: Mapping[str, str],
    ) -> Self:
        """The form that a table's metadata asks for, as far as files are written by it here: another program may have set others."""
        codec = CODECS.get(properties.get(CODEC, "zstd").lower(), "zstd")
        level = properties.get(LEVEL, "")
        chosen = int(level) if codec in _LEVELED and level.isdecimal() else None
        return cls(partitioning, sorting.if_writable(columns), codec, chosen)
