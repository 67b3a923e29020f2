"""One data file as the log has it: what our commits add and remove."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from replicator_target_delta.files.statistics import parse_statistics


@dataclass(slots=True)
class DataFile:
    """One file of a table: the content of its `add` action.

    Attributes:
        add: The action's content as the log has it.
        place: Where the table's index has the file; None for a new one.
    """

    add: dict[str, Any]
    place: tuple[int, int] | None = field(default=None, compare=False)

    @property
    def path(self) -> str:
        """Its path in the log."""
        return str(self.add["path"])

    @property
    def location(self) -> str:
        """The same as a file name; the log writes paths as URIs."""
        return unquote(self.path)

    @property
    def statistics(self) -> dict[str, Any]:
        """Its `stats`, parsed at each call."""
        return parse_statistics(self.add.get("stats"))

    @property
    def rows(self) -> int:
        """Rows in it, gone ones included; -1 unknown."""
        return int(self.statistics.get("numRecords", -1))

    @property
    def deleted(self) -> int:
        """How many of its rows are gone."""
        vector = self.add.get("deletionVector")
        return int(vector["cardinality"]) if vector else 0

    def remove(self, *, data_change: bool = True) -> dict[str, Any]:
        """The action that takes the file, with its deletion vector, out of the table.

        Args:
            data_change: Whether rows go; not when they come back in another file of the same commit.
        """
        content = {
            "path": self.path,
            "deletionTimestamp": int(time.time() * 1000),
            "dataChange": data_change,
            "extendedFileMetadata": True,
            "partitionValues": self.add.get("partitionValues", {}),
            "size": self.add["size"],
        }
        for name in ("deletionVector", "stats", "baseRowId", "defaultRowCommitVersion"):
            if self.add.get(name) is not None:
                content[name] = self.add[name]
        return {"remove": content}

    def with_vector(self, descriptor: dict[str, Any]) -> DataFile:
        """The same file with another deletion vector; its bounds then need not be tight any more."""
        stats = self.add.get("stats")
        add = {**self.add, "deletionVector": descriptor, "dataChange": True}
        if stats:
            add["stats"] = stats.replace('"tightBounds":true', '"tightBounds":false')
            if '"tightBounds"' not in stats:
                add["stats"] = stats[:-1] + ',"tightBounds":false}'
        return DataFile(add)
