"""What a run is to notify people of, read from what it shows."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from replicator_runtime.engine.run_state.progress import SILENT_SECONDS, error_view
from replicator_runtime.engine.schedule.verified_tables import stored
from replicator_runtime.engine.tables.table_state import TableState
from replicator_runtime.notices.conditions import Key
from replicator_runtime.observability.next_steps import completed
from replicator_sdk.errors import FencedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from replicator_runtime.config.sections.destinations import Destination
    from replicator_runtime.config.sections.notifications import NoticeKind
    from replicator_runtime.engine.run_state.progress import RunView
    from replicator_runtime.engine.run_state.run import Run
    from replicator_runtime.engine.views.source_view import SourceView

WORKS: Final = frozenset({"snapshot", "streaming", "maintenance", "done"})
"""In these phases what is not shown to fail does not."""
_HELD_GAUGE: Final = "source.held_wal_bytes"
_STORE_ANSWERS: Final = frozenset({"streaming", "done"})
_NOT_COPIED: Final = frozenset({TableState.PENDING, TableState.SNAPSHOTTING})
_VERIFIED_SECONDS: Final = 8.0


class RunConditions:
    """Reads them. Used by one thread.

    Args:
        run: The run.
        destinations: Who is notified; some conditions have limits of theirs.
    """

    def __init__(self, run: Run, destinations: Sequence[Destination]) -> None:
        self._run = run
        self._destinations = destinations
        self._different: dict[Key, str] | None = None
        self._look_at = 0.0

    def found(self, view: RunView, error: BaseException | None) -> Mapping[Key, str]:
        """The conditions that hold, and what is said of each.

        Args:
            view: The run at this moment.
            error: What ended the run; None while it goes on, and when it ended well.

        Raises:
            ReplicatorError: As the state's store fails.
        """
        return dict(
            (
                *self._of_run(view, error),
                *self._of_tables(view),
                *self._of_log(view),
                *self._of_objectives(),
                *self._of_comparisons(view),
            )
        )

    def sure(self, view: RunView) -> frozenset[Key]:
        """Those of `found` that have held for long already: a source is silent only after some time."""
        return frozenset({Key("run_failing")} if self._fault(view) is None and _is_silent(view) else ())

    @property
    def unknown(self) -> frozenset[NoticeKind]:
        """Kinds of which nothing is known yet: those that were reported before hold."""
        freshness = self._run.freshness
        kinds: list[NoticeKind] = []
        if self._different is None:
            kinds.append("verify_differences")
        if freshness is not None and not freshness.figures:
            kinds.append("objective_broken")
        return frozenset(kinds)

    @staticmethod
    def is_copying(view: RunView) -> bool | None:
        """Whether some table is not copied yet; None when nothing is known."""
        if view.phase not in WORKS or not view.tables:
            return None
        return any(table.state in _NOT_COPIED for table in view.tables)

    def _of_run(self, view: RunView, error: BaseException | None) -> Iterator[tuple[Key, str]]:
        if error is not None:
            if not isinstance(error, FencedError):  # another run goes on
                yield Key("run_failed"), _words(error_view(error))
            return
        if (fault := self._fault(view)) is not None:
            yield Key("run_failing"), _words(error_view(fault))
        elif _is_silent(view):
            yield (
                Key("run_failing"),
                f"the source has neither answered nor sent anything for {SILENT_SECONDS:g} seconds",
            )

    def _fault(self, view: RunView) -> Exception | None:
        progress = self._run.progress
        return progress.source_error or (progress.retried_error if view.phase == "retrying" else None)

    def _of_tables(self, view: RunView) -> Iterator[tuple[Key, str]]:
        for table in view.tables:
            name = str(table.table)
            if table.state is TableState.FAILING and table.error_parts is not None:
                yield Key("table_failing", name), _words(table.error_parts, name)
            if table.pause is not None and table.pause.asks:
                yield Key("schema_change_waiting", name), table.pause.asks

    def _of_log(self, view: RunView) -> Iterator[tuple[Key, str]]:
        source = view.source
        held = max(0 if source is None else _kept_bytes(source), int(self._run.metrics.value(_HELD_GAUGE) or 0))
        now = time.time()
        waits = [view.lag_seconds or 0.0]
        waits += [now - t.failing_since for t in view.tables if t.holds_log and t.failing_since is not None]
        minutes = max(waits) / 60
        parts = (f"{held / 2**30:.1f} GiB" if held else "", f"for {minutes:.0f} minutes" if minutes >= 1 else "")
        for one in self._destinations:
            ends = source is not None and source.ends_within(one.config.left_minutes * 60)
            if held > one.config.held_bytes or minutes > one.config.held_minutes or ends:
                said = (*parts, "" if source is None or not ends else _left_words(source))
                yield Key("source_log_held", one.limits), ", ".join(filter(None, said))

    def _of_objectives(self) -> Iterator[tuple[Key, str]]:
        freshness = self._run.freshness
        for figures in () if freshness is None else freshness.figures:
            if not figures.is_met:
                objective, about = figures.objective, "" if figures.table is None else str(figures.table)
                wanted = f"{objective.percent:g} % of {objective.window} within {objective.minutes:g} minutes"
                yield Key("objective_broken", about), f"{figures.ratio:.3%} instead of {wanted}"

    def _of_comparisons(self, view: RunView) -> Iterator[tuple[Key, str]]:
        """As of the last look into the state, which is not asked while the run fails: it may be what is away."""
        is_well = view.phase in _STORE_ANSWERS and self._run.progress.source_error is None
        if is_well and time.monotonic() >= self._look_at:
            self._look_at = time.monotonic() + _VERIFIED_SECONDS
            self._different = {
                Key("verify_differences", str(table)): (
                    f"{one.missing:,} rows missing, {one.surplus:,} surplus, {one.different:,} different"
                )
                for table, one in stored(self._run.store).items()
                if one.result == "different"
            }
        yield from (self._different or {}).items()


def _kept_bytes(source: SourceView) -> int:
    """Of log that the source keeps for the pipeline alone; where it does so for all readers alike, what it has after the saved offset."""
    health = source.health
    return (health.waiting_bytes if health.held_bytes is None else health.held_bytes) or 0


def _left_words(source: SourceView) -> str:
    left = source.left_now or 0.0
    if left == 0.0:
        return f"some of it is given up ({source.health.limited_by or 'its limit is reached'})"
    return f"given up in {left / 60:.0f} minutes" + (f" ({limit})" if (limit := source.health.limited_by) else "")


def _words(error: Mapping[str, str], table: str = "") -> str:
    text = f"{error['code'] or 'error'}: {error['message']}".rstrip(".")
    hint = completed(error["hint"], table)
    return f"{text}. Next: {hint}" if hint else text


def _is_silent(view: RunView) -> bool:
    """Whether the source does not answer; a frozen server may cause no error for long."""
    return bool(view.silent_seconds) and view.phase == "streaming"
