"""Settings of the source."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from pydantic import Field

from replicator_sdk import PluginConfig
from replicator_sdk.config import SettingEdit
from replicator_sdk.discovery.assessment import Severity


class Incomplete(enum.StrEnum):
    """What happens to a table of which the archive does not have all rows."""

    FAIL = "fail"
    """It stops (RPL-3556); nothing of it is copied."""
    CHANGES = "changes"
    """It begins with the rows that the archive shows since then."""


class ArchiveConfig(PluginConfig):
    """Settings of an archive as a source.

    Attributes:
        path: The folder of the archive, or an fsspec URL, as `archive.path` of the pipeline that writes it. Options come from the environment.
        incomplete: What happens to a table of which the archive does not have all rows: `fail`, or `changes`, where it begins with
            the rows that the archive shows.
        poll_interval_seconds: How long the reader waits before it looks for the next manifest.
        snapshot_folder: Where tables are put together while they are copied; the system's temporary folder when left out.
    """

    edits: ClassVar[Mapping[str, SettingEdit]] = {
        "path": SettingEdit(
            "the saved offset is looked for there: another archive than before is refused (RPL-7140, RPL-3554)",
            "nothing, if it is the same archive at another place; else put it back",
            Severity.WARNING,
            checked_at_start=True,
        ),
        "incomplete": SettingEdit("tables that are copied from the next run on follow it; the others stay as they are"),
    }

    path: str = Field(min_length=1)
    incomplete: Incomplete = Incomplete.FAIL
    poll_interval_seconds: float = Field(default=1.0, gt=0, le=3600)
    snapshot_folder: Path | None = None
