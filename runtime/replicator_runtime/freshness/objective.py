"""What the pipeline promises of a table: within how many minutes it is replicated, and for how much of the time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from replicator_runtime.config import PipelineConfig, Selection
    from replicator_runtime.config.sections.slo import SloConfig
    from replicator_sdk import TableId

MINUTES_A_DAY = 1440


@dataclass(frozen=True, slots=True)
class Objective:
    """An objective over whole days in UTC, the present one included.

    Attributes:
        percent: For how much of the time.
        minutes: How old the changes that are missing may be.
        days: How many days count.
    """

    percent: float
    minutes: float
    days: int

    @property
    def window(self) -> str:
        """Its days, for people."""
        return "1 day" if self.days == 1 else f"{self.days} days"

    @property
    def budget_minutes(self) -> float:
        """How many minutes of its days may be broken."""
        return self.days * MINUTES_A_DAY * (100.0 - self.percent) / 100.0

    @classmethod
    def of(cls, config: SloConfig) -> Objective:
        """The objective that the settings say."""
        return cls(config.percent, config.minutes, config.days)


class Objectives:
    """The objectives of one pipeline, the whole one's and each table's. Used by one thread.

    Args:
        config: The pipeline's settings.
        selection: Its tables.
    """

    def __init__(self, config: PipelineConfig, selection: Selection) -> None:
        self._config = config
        self._selection = selection
        self._known: dict[TableId, Objective | None] = {}

    @property
    def is_set(self) -> bool:
        """Whether the pipeline has an objective, for any table."""
        return self._config.slo is not None or any(table.slo is not None for table in self._config.tables)

    @property
    def of_all(self) -> Objective:
        """The pipeline's: a minute counts as fresh when each table was, by its own minutes."""
        from replicator_runtime.config.sections.slo import SloConfig

        return Objective.of(self._config.slo or SloConfig())

    def of_table(self, table: TableId) -> Objective | None:
        """That of a table; None where it has none."""
        if table not in self._known:
            selected = self._selection.matches(table)
            slo = None if selected is None else selected.slo
            self._known[table] = None if slo is None else Objective.of(slo)
        return self._known[table]
