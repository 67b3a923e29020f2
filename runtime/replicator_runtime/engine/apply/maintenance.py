"""Starts the target's maintenance at its interval."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import structlog

from replicator_runtime.engine.run_state.plugin_contexts import TargetContext
from replicator_runtime.engine.run_state.unknown_errors import summary

if TYPE_CHECKING:
    from collections.abc import Iterable

    from replicator_runtime.engine.run_state.run import Run
    from replicator_sdk import TableId

log = structlog.get_logger()


class Maintenance:
    """The interval between two maintenances of one run. The caller lets none meet an apply.

    Args:
        run: The run.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._every = run.pipeline.target.maintenance_interval_seconds
        self._began_at = time.monotonic()

    @property
    def is_due(self) -> bool:
        """Whether the interval has passed; never where the target has none."""
        return self._every > 0 and time.monotonic() - self._began_at >= self._every

    def run(self, tables: Iterable[TableId]) -> None:
        """Let the target maintain `tables`; returns when it has. A failure is logged, and tried again when next due."""
        self._began_at = time.monotonic()
        try:
            self._run.pipeline.target.maintain(TargetContext(self._run), sorted(tables))
        except Exception as error:  # noqa: BLE001 - maintenance changes no data, so its failure must not end the run
            log.warning("maintenance.failed", error=summary(error))
