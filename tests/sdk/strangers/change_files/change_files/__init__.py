"""A source: a folder to which an application writes one NDJSON file for each transaction.

The files are `00000001.ndjson`, `00000002.ndjson` and so on, each put there complete (written elsewhere, then renamed). A line
is a row change, `{"table": …, "op": "INSERT" | "UPDATE" | "DELETE", "row": {…}, "before": {…}}`, or a change of structure:
`{"table": …, "schema": {…}, "renamed": {new: old}, "defaults": {…}}`, `{"table": …, "truncate": true}`, `{"table": …, "drop": true}`.
"""

from __future__ import annotations

from change_files.source import ChangeFilesConfig, ChangeFilesSource
from replicator_sdk import DeltaSource, hookimpl

__all__ = ["ChangeFilesConfig", "ChangeFilesSource", "delta_sources"]


@hookimpl
def delta_sources() -> list[type[DeltaSource]]:
    """The source."""
    return [ChangeFilesSource]
