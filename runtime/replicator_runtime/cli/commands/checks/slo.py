"""`replicator slo`: how much of the time the tables were fresh, what is left of the error budget, and which are worst."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from replicator_runtime.cli.options import AsJson, Base, Debug, Namespace, Replicator
from replicator_runtime.cli.report import Report
from replicator_runtime.observability.next_steps import Subject

if TYPE_CHECKING:
    from collections.abc import Sequence

    from replicator_runtime.freshness.figures import Figures
    from replicator_state import StateStore

Worst = Annotated[int, typer.Option("--tables", min=0, help="So many tables at most, the worst ones first.")]
_WORST_IN_STATUS: Final = 3


def slo(
    name: Replicator,
    namespace: Namespace = "default",
    base: Base = None,
    tables: Worst = 20,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Show how much of the time the tables were replicated within the objective's minutes (key `slo` of the pipeline), and its error budget.

    Starts nothing and connects to nothing. Example: replicator slo pipeline.json
    """
    with Report("slo", as_json=as_json, debug=debug, subject=Subject(name, namespace, base)) as report:
        from replicator_runtime.cli.state_lookup import find_state

        directory = find_state(name, namespace, base).directory
        figures = stored_figures(directory.states().scoped("runtime"))
        report.data = {
            "name": directory.name,
            "namespace": directory.namespace,
            "generation": directory.generation,
            "slo": slo_json(figures, tables),
        }
        if not figures:
            report.note("nothing is measured yet: it is once a run of a pipeline with the key `slo` replicates a table")
            return
        report.line(f"{directory.name} (namespace {directory.namespace}, generation {directory.generation})")
        report.line(_about_all(figures))
        report.line()
        _print_tables(report, figures[1 : tables + 1])
        if len(figures) - 1 > tables:
            report.note(f"{len(figures) - 1 - tables:,} more tables; `--tables` shows more")


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


def slo_json(figures: Sequence[Figures], tables: int = _WORST_IN_STATUS) -> dict[str, Any] | None:
    """The figures of the pipeline and of its worst tables; None when nothing is measured."""
    if not figures:
        return None
    return {**figures[0].to_json(), "tables": [one.to_json() for one in figures[1 : tables + 1]]}


def print_slo(report: Report, figures: Sequence[Figures]) -> None:
    """Print the pipeline's figures, and the worst tables that are not fresh all the time.

    Args:
        report: Where.
        figures: As `stored_figures` gives them.
    """
    if not figures:
        return
    report.line()
    report.line(f"{_about_all(figures)}; `replicator slo NAME` shows the tables")
    for one in [one for one in figures[1:] if one.broken][:_WORST_IN_STATUS]:
        report.line(f"{one.table}: fresh {_percent(one)} of the time, {_budget(one)}")


def _about_all(figures: Sequence[Figures]) -> str:
    whole = figures[0]
    objective, others = whole.objective, {one.objective for one in figures[1:]} - {whole.objective}
    within = "by each table's own minutes" if others else f"within {objective.minutes:g} min"
    return (
        f"objective: all tables fresh {within} for {objective.percent:g} % of {objective.window}; "
        f"fresh {_percent(whole)} since {whole.since}, {_budget(whole)}"
    )


def _print_tables(report: Report, figures: Sequence[Figures]) -> None:
    headings = ("table", "within min", "percent", "days", "fresh %", "broken min", "budget left min")
    report.table(
        headings,
        [
            (
                str(one.table),
                one.objective.minutes,
                one.objective.percent,
                one.objective.days,
                _rounded_down(one.ratio),
                one.broken,
                round(one.budget_left, 1),
            )
            for one in figures
        ],
    )


def _percent(one: Figures) -> str:
    return f"{_rounded_down(one.ratio):g} %"


def _rounded_down(ratio: float) -> float:
    """As a percentage with three places; never 100 when a minute was broken."""
    return int(ratio * 100_000) / 1000


def _budget(one: Figures) -> str:
    left, all_of_it = one.budget_left, one.objective.budget_minutes
    if left < 0:
        return f"broken: {-left:,.0f} min more than the error budget of {all_of_it:,.0f} min"
    return f"{left:,.0f} of {all_of_it:,.0f} min of the error budget left"
