"""How long failures are retried: a time budget that starts again with every progress."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from replicator_runtime.config.model import RetriesConfig
    from replicator_sdk import TableId

_FIRST_WAIT_SECONDS = 60.0


def growing_wait(failures: int, longest: float) -> float:
    """Seconds to wait after so many failures: a minute, then twice as long each time, up to `longest`."""
    return min(longest, _FIRST_WAIT_SECONDS * 2.0 ** min(failures - 1, 20))


@dataclass(slots=True)
class RetryBudget:
    """The budget of the whole run, or of one table.

    Attributes:
        attempts: Failures since the last progress.
    """

    retries: RetriesConfig
    attempts: int = 0
    _since: float = 0.0

    def next_delay(self) -> float | None:
        """Seconds to wait after one more failure; None when the budget is spent.

        Doubles from half a second up to the configured delay, with jitter.
        """
        now = time.monotonic()
        if self.attempts == 0:
            self._since = now
        self.attempts += 1
        budget = self.retries.max_duration_seconds
        if budget is not None and now - self._since >= budget:
            return None
        longest = min(self.retries.delay_seconds, 0.5 * 2.0 ** min(self.attempts - 1, 10))
        return float(longest) * random.uniform(0.75, 1.0)  # noqa: S311 - no secret

    def progressed(self) -> None:
        """There was progress: the next failure starts a new budget."""
        self.attempts = 0

    def extend(self) -> None:
        """Something else went forward: the budget begins now, but what fails is still tried as rarely as before."""
        self._since = time.monotonic()


class TableRetryBudgets:
    """A budget for each table; kept over the attempts of one run."""

    def __init__(self, retries: RetriesConfig) -> None:
        self._retries = retries
        self._tables: dict[TableId, RetryBudget] = {}

    def next_delay(self, table: TableId) -> float | None:
        """Seconds until `table` is tried again; None when its budget is spent."""
        return self._tables.setdefault(table, RetryBudget(self._retries)).next_delay()

    def succeeded(self, table: TableId) -> None:
        """Changes of `table` were applied."""
        self._tables.pop(table, None)
