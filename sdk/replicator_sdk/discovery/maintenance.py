"""What a target does for its tables beside applying changes: which tasks there are, and what one step of a task did."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class AppliesHeld(enum.StrEnum):
    """Which applies the runtime holds while a step of a task is done.

    Changes of a table's structure are held by each of them: no step runs beside a DDL event of its table.
    """

    NONE = "none"
    """None: rows of the same table are applied meanwhile, from other threads."""
    TABLE = "table"
    """Those of the same table; other tables are applied meanwhile, from other threads."""
    ALL = "all"
    """Those of all tables."""


@dataclass(frozen=True, slots=True)
class MaintenanceTask:
    """A kind of maintenance that each table needs from time to time. Immutable.

    Attributes:
        name: What logs, states and the command line call it; lower case, and the same in later versions.
        interval_seconds: How much time is between two times a table has it; above 0.
        holds: Which applies are held meanwhile.
    """

    name: str
    interval_seconds: float
    holds: AppliesHeld = AppliesHeld.TABLE


@dataclass(frozen=True, slots=True)
class MaintenanceReport:
    """What one step of a task did to one table. Immutable.

    Attributes:
        is_finished: Whether the task needs no further step for now; if not, the runtime calls for the next one soon.
        files_before: The number of files that the task looks after, before the step; None where that is not known.
        files_after: The same after it.
        bytes_before: The size of these files in bytes before the step; None where that is not known.
        bytes_after: The same after it.
    """

    is_finished: bool = True
    files_before: int | None = None
    files_after: int | None = None
    bytes_before: int | None = None
    bytes_after: int | None = None

    @property
    def has_changed(self) -> bool:
        """Whether the step did something."""
        return (self.files_before, self.bytes_before) != (self.files_after, self.bytes_after)
