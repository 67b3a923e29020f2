"""A few rows of a table of a draft's source, for an admin who asks for them; kept nowhere."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import Field

from replicator_runtime.service.access.requirement import requires
from replicator_runtime.service.access.roles import Principal, Role
from replicator_runtime.service.context import Context
from replicator_runtime.service.drafts.assessments import no_such_table, of_draft, only_table, with_table
from replicator_runtime.service.drafts.endpoints import DraftName, Namespace, problems
from replicator_runtime.service.drafts.questions import answer
from replicator_runtime.service.drafts.schemas import Answer, TableBody
from replicator_runtime.service.problems import ProblemError

OFF = "RPL-1515"
MOST_ROWS = 50
router = APIRouter(prefix="/v1/contexts/{namespace}/drafts", tags=["drafts"])


class SampleBody(TableBody):
    """Names a table of the source, and how many of its rows are wanted."""

    rows: int = Field(default=10, ge=1, le=MOST_ROWS, description="At most so many.")


class TableSample(Answer):
    """A few rows of a table, as texts; which rows is not defined."""

    columns: list[str] = Field(description="The selected ones.")
    rows: list[list[str | None]] = Field(
        description="A text for each column, of 200 characters at most; null for NULL."
    )
    cut: list[tuple[int, int]] = Field(description="Row and column, from 0, of each text that is longer at the source.")


@router.post(
    "/{name}/sampleTable", operation_id="sampleDraftTable", responses=problems(401, 403, 404, 409, 422, 503, 504)
)
def sample_table(
    namespace: Namespace,
    name: DraftName,
    body: SampleBody,
    context: Context,
    principal: Annotated[Principal, requires(Role.ADMIN)],
) -> TableSample:
    """Read a few rows of a table of the draft's source: selected columns, and rows that `where` selects.

    Only where the service was started with `--data-samples`. The answer is not stored, so the operation takes no `Idempotency-Key`.
    """
    if not context.settings.data_samples:
        raise ProblemError(
            409,
            OFF,
            "this service shows no rows of sources",
            hint="look at the rows with a client of the source, or start the service with `replicator serve --data-samples`",
        )
    config = with_table(of_draft(context, namespace, name), body)
    folder = body.schema_ or body.database
    pattern = f"{folder}.{body.table}" if folder else body.table
    if set(pattern) & {"*", "?"} and only_table(answer(context, config, ["tables"], [pattern]), body) is None:
        raise no_such_table()  # and the rows of all tables that fit are not read
    found: Any = only_table(answer(context, config, ["tables", "--rows", str(body.rows)], [pattern]), body)
    if found is None:
        raise no_such_table()
    return TableSample.model_validate(found["sample"])
