"""Tables of a source, and assessments: of drafts, and of configs that are not stored."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter

from replicator_runtime.config.selection import glob_matches
from replicator_runtime.service.access.requirement import requires
from replicator_runtime.service.access.roles import Principal, Role
from replicator_runtime.service.catalogue.secret_settings import refuse_literal_secrets
from replicator_runtime.service.context import Context
from replicator_runtime.service.drafts.answers import described_table, pipeline_assessment, table_assessment, table_list
from replicator_runtime.service.drafts.documents import completed, config_text
from replicator_runtime.service.drafts.endpoints import DraftName, Namespace, problems
from replicator_runtime.service.drafts.pointers import pointer_of
from replicator_runtime.service.drafts.questions import answer, ask, raise_for_problems
from replicator_runtime.service.drafts.schemas import (
    ConfigProblem,
    DescribedTable,
    PipelineAssessmentAnswer,
    PipelineBody,
    TableAndConfigBody,
    TableAssessmentAnswer,
    TableBody,
    TableList,
    Validation,
)
from replicator_runtime.service.problems import ProblemError
from replicator_runtime.service.store.documents import StoredDrafts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from replicator_runtime.service.context import ServiceContext

NO_TABLE = "RPL-1510"
UNNAMED = "unnamed"
"""The name of a config without one, which nothing is stored by."""
_FAILURES = problems(401, 403, 404, 409, 422, 503, 504)
router = APIRouter(prefix="/v1/contexts/{namespace}", tags=["drafts"])
_Json = dict[str, Any]
Operator = Annotated[Principal, requires(Role.OPERATOR)]


@router.post("/drafts/{name}/listTables", operation_id="listDraftTables", responses=_FAILURES)
def list_tables(namespace: Namespace, name: DraftName, context: Context, principal: Operator) -> TableList:
    """List the tables of the draft's source; the draft may lack its target."""
    return table_list(answer(context, of_draft(context, namespace, name), ["tables"]))


@router.post("/drafts/{name}/describeTable", operation_id="describeDraftTable", responses=_FAILURES)
def describe_table(
    namespace: Namespace, name: DraftName, body: TableBody, context: Context, principal: Operator
) -> DescribedTable:
    """Describe a table of the draft's source; the draft may lack its target."""
    config = of_draft(context, namespace, name)
    found = only_table(answer(context, config, ["tables", "--columns"], [body.table]), body)
    if found is None:
        raise no_such_table()
    return described_table(found)


@router.post("/drafts/{name}/assessPipeline", operation_id="assessDraft", responses=_FAILURES)
def assess_draft(
    namespace: Namespace, name: DraftName, context: Context, principal: Operator
) -> PipelineAssessmentAnswer:
    """Assess the draft: source, target, and every table that it selects."""
    return pipeline_assessment(answer(context, of_draft(context, namespace, name), ["assess"]))


@router.post("/drafts/{name}/assessTable", operation_id="assessDraftTable", responses=_FAILURES)
def assess_draft_table(
    namespace: Namespace, name: DraftName, body: TableBody, context: Context, principal: Operator
) -> TableAssessmentAnswer:
    """Assess one table of the draft, with what the config says of it."""
    return _assess_table(context, of_draft(context, namespace, name), body)


@router.post("/assessPipeline", operation_id="assessPipeline", responses=_FAILURES)
def assess_pipeline(
    namespace: Namespace, body: PipelineBody, context: Context, principal: Operator
) -> PipelineAssessmentAnswer:
    """Assess a config that is not a draft."""
    return pipeline_assessment(answer(context, _of_body(context, namespace, body.model_dump()), ["assess"]))


@router.post("/assessTable", operation_id="assessTable", responses=_FAILURES)
def assess_table(
    namespace: Namespace, body: TableAndConfigBody, context: Context, principal: Operator
) -> TableAssessmentAnswer:
    """Assess one table of a config that is not a draft."""
    return _assess_table(context, _of_body(context, namespace, body.delta_config), body.db_table)


@router.post("/validate", operation_id="validatePipeline", responses=problems(401, 403, 413, 422, 503, 504))
def validate(namespace: Namespace, body: PipelineBody, context: Context, principal: Operator) -> Validation:
    """Check a config without connecting to anything."""
    config = _of_body(context, namespace, body.model_dump())
    found = ask(context, config, ["validate"])
    if found.error is None:
        return Validation(valid=True, errors=[])
    if found.error.get("class") != "config":
        raise_for_problems(found, config)
    return Validation(
        valid=False,
        errors=[
            ConfigProblem(pointer=pointer_of(p["path"], config), message=p["message"], hint=p["hint"], code=p["code"])
            for p in found.problems
        ],
    )


def no_such_table() -> ProblemError:
    """The error of a table that the source does not list."""
    return ProblemError(
        404,
        NO_TABLE,
        "the source has no such table",
        hint="list the source's tables: that gives the names of all that are seen",
    )


def of_draft(context: ServiceContext, namespace: str, name: str) -> _Json:
    """The config of a draft, with what the service adds to it."""
    draft = StoredDrafts(context.database).find(namespace, name)
    return completed(json.loads(draft.config), context.settings, namespace, name)


def _of_body(context: ServiceContext, namespace: str, body: _Json) -> _Json:
    """The config that a body is, or has under the key `config`."""
    inner = body.get("config")
    config = inner if isinstance(inner, dict) and "stages" not in body else body
    config_text(config)
    refuse_literal_secrets(context, config)
    return completed(config, context.settings, namespace, UNNAMED)


def _assess_table(context: ServiceContext, config: _Json, table: TableBody) -> TableAssessmentAnswer:
    found = answer(context, with_table(config, table), ["assess"])
    return table_assessment(found, only_table(found["tables"], table))


def with_table(config: _Json, table: TableBody) -> _Json:
    """The config with this table alone, and what it says of it."""
    written = config.get("tables")
    entries = [e for e in written if isinstance(e, dict) and not e.get("exclude")] if isinstance(written, list) else []
    exact = [e for e in entries if e.get("table") == table.table]
    fitting = [e for e in entries if isinstance(e.get("table"), str) and glob_matches(e["table"], table.table)]
    entry = (*exact, *fitting, {})[0]
    named = {k: v for k, v in (("database", table.database), ("schema", table.schema_), ("table", table.table)) if v}
    snapshot = config.get("snapshot")
    alone = {**config, "tables": [{**entry, **named}]}
    if isinstance(snapshot, dict):
        alone["snapshot"] = {k: v for k, v in snapshot.items() if k != "order"}
    return alone


def only_table(found: Iterable[_Json], wanted: TableBody) -> Mapping[str, Any] | None:
    """The table that is meant; one that is named without its schema or database is the first of that name."""
    for table in found:
        if (
            table["table"] == wanted.table
            and wanted.database in {"", table["database"]}
            and wanted.schema_ in {"", table["schema"]}
        ):
            return table
    return None
