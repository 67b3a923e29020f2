"""Settings of the SQLite source."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from pydantic import Field

from replicator_sdk import OutOfRange, PluginConfig
from replicator_sdk.config import SettingEdit
from replicator_sdk.discovery.assessment import Severity


class SqliteConfig(PluginConfig):
    """Settings of a SQLite source in a pipeline.

    Attributes:
        path: The database file; it must exist.
        out_of_range: What happens to a value that its declared type cannot hold; the target's setting when left out.
        poll_interval_seconds: How long the reader waits between two polls.
        batch_rows: How many changes are read and emitted at once; bounds the reader's memory.
        chunk_rows: How many rows a snapshot chunk holds.
        keep_changes_hours: For how long changes stay in the changelog that the target has, so that `replicator rewind` can read them
            again; the database grows by them. 0 removes them at once.
        snapshot_folder: Where copies of tables are stored while they are read; the system's temporary folder when left out.
    """

    edits: ClassVar[Mapping[str, SettingEdit]] = {
        "path": SettingEdit(
            "the saved offset is looked for there: another database than before is refused (RPL-7140)",
            "nothing, if it is the same database under another name; else put it back",
            Severity.WARNING,
            checked_at_start=True,
        ),
        "outOfRange": SettingEdit("values that are read from the next run on follow it; the others stay as they are"),
    }

    path: Path
    out_of_range: OutOfRange | None = None
    poll_interval_seconds: float = Field(default=0.5, gt=0, le=3600)
    batch_rows: int = Field(default=20_000, ge=1, le=1_000_000)
    chunk_rows: int = Field(default=200_000, ge=1)
    keep_changes_hours: float = Field(default=0, ge=0)
    snapshot_folder: Path | None = None
