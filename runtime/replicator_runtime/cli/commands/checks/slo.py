"""`replicator slo`: how much of the time the tables were fresh, what is left of the error budget, and which are worst."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from replicator_runtime.cli.options import AsJson, Base, Debug, Namespace, Replicator
from replicator_runtime.cli.report import Report
from replicator_runtime.observability.next_steps import Subject
from replicator_runtime.observed.objectives import slo_json, stored_figures

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Worst = Annotated[int, typer.Option("--tables", min=0, help="So many tables at most, the worst ones first.")]


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
        print_objectives(report, report.data)


def print_objectives(report: Report, found: Mapping[str, Any]) -> None:
    """Print all figures, as the JSON of the command has them."""
    figures = found["slo"]
    if figures is None:
        report.note("nothing is measured yet: it is once a run of a pipeline with the key `slo` replicates a table")
        return
    report.line(f"{found['name']} (namespace {found['namespace']}, generation {found['generation']})")
    report.line(_about_all(figures))
    report.line()
    _print_tables(report, figures["tables"])
    if left := figures["tablesMeasured"] - len(figures["tables"]):
        report.note(f"{left:,} more tables; `--tables` shows more")


def print_slo(report: Report, figures: Mapping[str, Any] | None) -> None:
    """Print the pipeline's figures, and the worst tables that are not fresh all the time.

    Args:
        report: Where.
        figures: As `slo_json` gives them.
    """
    if figures is None:
        return
    report.line()
    report.line(f"{_about_all(figures)}; `replicator slo NAME` shows the tables")
    for one in figures["tables"]:
        if one["brokenMinutes"]:
            report.line(f"{_table(one)}: fresh {_fresh(one):g} % of the time, {_budget(one)}")


def _about_all(whole: Mapping[str, Any]) -> str:
    within = f"within {whole['minutes']:g} min" if whole["sameObjective"] else "by each table's own minutes"
    days = _days(whole)
    return (
        f"objective: all tables fresh {within} for {whole['percent']:g} % of {days} day{'s' * (days != 1)}; "
        f"fresh {_fresh(whole):g} % since {whole['since']}, {_budget(whole)}"
    )


def _print_tables(report: Report, figures: Sequence[Mapping[str, Any]]) -> None:
    headings = ("table", "within min", "percent", "days", "fresh %", "broken min", "budget left min")
    rows = [
        (
            _table(one),
            one["minutes"],
            one["percent"],
            _days(one),
            _fresh(one),
            one["brokenMinutes"],
            one["budgetMinutesLeft"],
        )
        for one in figures
    ]
    report.table(headings, rows)


def _table(one: Mapping[str, Any]) -> str:
    from replicator_sdk import TableId

    return str(TableId.from_json(dict(one)))


def _days(one: Mapping[str, Any]) -> int:
    return int(one["window"].removesuffix("d"))


def _fresh(one: Mapping[str, Any]) -> float:
    """As a percentage with three places, rounded down: never 100 when a minute was broken."""
    counted = one["freshMinutes"] + one["brokenMinutes"]
    ratio = one["freshMinutes"] / counted if counted else 1.0
    return int(ratio * 100_000) / 1000


def _budget(one: Mapping[str, Any]) -> str:
    left, all_of_it = one["budgetMinutesLeft"], one["budgetMinutes"]
    if not one["isMet"]:
        return f"broken: {-left:,.0f} min more than the error budget of {all_of_it:,.0f} min"
    return f"{left:,.0f} of {all_of_it:,.0f} min of the error budget left"
