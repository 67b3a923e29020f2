"""The states of a table that users see."""

from __future__ import annotations

import enum


class TableState(enum.StrEnum):
    """A table's state; set by the engine only, kept in its table store and shown in `state.json`."""

    PENDING = "PENDING"
    """Selected; its snapshot has not begun."""
    SNAPSHOTTING = "SNAPSHOTTING"
    """Its existing rows are being copied."""
    REPLICATING = "REPLICATING"
    """Changes are applied as they arrive."""
    FAILING = "FAILING"
    """Stopped with an error that says why. Its position in the log is kept, until it has failed for too long."""
    PAUSED = "PAUSED"
    """Stopped by an operator. Its changes go to a lane, which the target gets when the table is resumed."""
