"""From what the command line prints to the shapes of seed 001 and CDAP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from replicator_runtime.service.drafts.schemas import (
    AssessedColumn,
    AssessedTable,
    AssessmentProblem,
    DescribedColumn,
    DescribedTable,
    ListedTable,
    PipelineAssessmentAnswer,
    Suggestion,
    SuggestionDetails,
    TableAssessmentAnswer,
    TableList,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

CONNECTIVITY = frozenset(
    {
        "connection",
        "unavailable",
        "unreachable",
        "refused",
        "missing_table",
        "table",
        "no_tables",
        "streaming_unreachable",
    }
)
"""Names of findings about what cannot be reached or read; all others are about what source or target lack."""
_Json = dict[str, Any]


def table_list(found: Iterable[_Json]) -> TableList:
    """Of `replicator tables`."""
    return TableList(
        tables=[
            ListedTable(
                database=table["database"],
                schema=table["schema"],
                name=table["table"],
                table=table["table"],
                num_columns=table["numColumns"],
                estimated_rows=table["estimatedRows"],
                estimated_bytes=table["estimatedBytes"],
                replicated=table["replicated"],
            )
            for table in found
        ]
    )


def described_table(table: Mapping[str, Any]) -> DescribedTable:
    """Of `replicator tables --columns`."""
    return DescribedTable(
        database=table["database"],
        schema=table["schema"],
        table=table["table"],
        num_columns=table["numColumns"],
        primary_key=table["primaryKey"],
        columns=[
            DescribedColumn(
                name=column["name"],
                type=column["sourceType"] or column["type"],
                nullable=column["nullable"],
                standard_type=column["type"],
            )
            for column in table["columns"]
        ],
    )


def pipeline_assessment(found: Mapping[str, Any]) -> PipelineAssessmentAnswer:
    """Of `replicator assess`."""
    return PipelineAssessmentAnswer(tables=list(map(_assessed_table, found["tables"])), **_by_kind(_problems(found)))


def table_assessment(found: Mapping[str, Any], table: Mapping[str, Any] | None) -> TableAssessmentAnswer:
    """Of `replicator assess` with one table selected; None when the source does not have it."""
    columns = [] if table is None else table["columns"]
    return TableAssessmentAnswer(columns=list(map(_assessed_column, columns)), **_by_kind(_problems(found)))


def _assessed_table(table: _Json) -> AssessedTable:
    lost, changed = table["numColumnsNotSupported"], table["numColumnsPartiallySupported"]
    return AssessedTable(
        database=table["database"],
        schema=table["schema"],
        name=table["table"],
        table=table["table"],
        num_columns=table["numColumns"],
        columns_not_supported=lost,
        columns_partially_supported=changed,
        num_columns_not_supported=lost,
        num_columns_partially_supported=changed,
    )


def _assessed_column(column: _Json) -> AssessedColumn:
    note = column["note"]
    return AssessedColumn(
        source_name=column["sourceName"],
        target_name=column["targetName"],
        source_type=column["sourceType"],
        target_type=column["targetType"],
        support=column["support"],
        suggestion=Suggestion(details=SuggestionDetails(message=note), message=note) if note else None,
    )


def _problems(found: Mapping[str, Any]) -> Iterable[AssessmentProblem]:
    for finding in found["source"]:
        yield _problem(finding, "source", None)
    for finding in found["target"]:
        yield _problem(finding, "target", None)
    for table in found["tables"]:
        for finding in table["findings"]:
            yield _problem(finding, "table", table)


def _problem(finding: _Json, place: Any, table: _Json | None) -> AssessmentProblem:
    named = table or {"database": None, "schema": None, "table": finding["table"]}
    return AssessmentProblem(
        place=place,
        database=named["database"],
        schema=named["schema"],
        table=named["table"],
        **{key: finding[key] for key in _KEPT},
    )


_KEPT = ("name", "description", "suggestion", "impact", "severity", "fix", "code", "column")


def _by_kind(found: Iterable[AssessmentProblem]) -> dict[str, Any]:
    kinds: dict[str, list[AssessmentProblem]] = {"feature_problems": [], "connectivity_problems": [], "notes": []}
    for problem in found:
        if problem.severity == "INFO":
            kinds["notes"].append(problem)
        else:
            kinds["connectivity_problems" if problem.name in CONNECTIVITY else "feature_problems"].append(problem)
    return kinds
