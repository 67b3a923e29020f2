"""The figures of freshness objectives, as of now."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from replicator_runtime.freshness.figures import Figures
    from replicator_state import StateStore

WORST_SHOWN: Final = 3


def stored_figures(store: StateStore) -> tuple[Figures, ...]:
    """The figures as of now, the pipeline's first and then the tables', the worst first; empty when nothing is measured.

    Args:
        store: The runtime's own state.
    """
    from replicator_runtime.freshness.figures import figures_of
    from replicator_runtime.freshness.history import load
    from replicator_runtime.freshness.minutes import minute_day, minute_of

    now = time.time()
    return figures_of(load(store).as_of(now), minute_day(minute_of(now)))


def slo_json(figures: Sequence[Figures], tables: int = WORST_SHOWN) -> dict[str, Any] | None:
    """The figures of the pipeline and of its worst tables; None when nothing is measured."""
    if not figures:
        return None
    objectives = {one.objective for one in figures}
    return {
        **figures[0].to_json(),
        "sameObjective": len(objectives) == 1,
        "tablesMeasured": len(figures) - 1,
        "tables": [one.to_json() for one in figures[1 : tables + 1]],
    }
