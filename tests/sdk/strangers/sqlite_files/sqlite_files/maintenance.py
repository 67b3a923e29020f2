"""Keeps files small and fast: rows in the order of their identity, and no unused pages."""

from __future__ import annotations

from collections.abc import Callable

from replicator_sdk.discovery.maintenance import MaintenanceReport, MaintenanceTask
from sqlite_files.table import TableFile

COMPACT = MaintenanceTask("compact", 3600.0)
PAGES = 8
"""So many pages a step gives back."""


def compact(file: TableFile, is_stopping: Callable[[], bool]) -> MaintenanceReport:
    """One step, in the file's transaction: gives unused pages back, or puts the rows in order."""
    before = file.unused_pages()
    if before == 0:
        return MaintenanceReport(is_finished=not file.sort())
    for _ in range(PAGES):
        if is_stopping() or not file.give_back_a_page():
            break
    return MaintenanceReport(is_finished=False, files_before=before, files_after=file.unused_pages())
