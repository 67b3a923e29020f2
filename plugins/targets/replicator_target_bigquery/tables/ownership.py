"""Who may write a table in BigQuery, and the errors for those who may not."""

from __future__ import annotations

from replicator_sdk.authoring.table_ownership import SUPERSEDED_HINT, TableOwnership
from replicator_sdk.context import DeltaTargetContext
from replicator_sdk.errors import FencedError, NeedsUserError
from replicator_sdk.schema import TableId


class BigQueryOwnership(TableOwnership):
    """Who may write the table `table_id`, with this target's errors."""

    def __init__(self, table: TableId, context: DeltaTargetContext, table_id: str) -> None:
        super().__init__(table, context)
        self._id = table_id

    def foreign(self, whose: str) -> NeedsUserError:
        """Returns the error for a table that is not this replicator's."""
        return NeedsUserError(
            f"the table {self._id} is {whose}",
            code="RPL-6524",
            table=str(self.table),
            hint="choose another `datasetName`, or move that table away",
        )

    def occupied(self, other: TableId) -> NeedsUserError:
        """Returns the error for a table of another table at the source."""
        return NeedsUserError(
            f"{self._id} holds another table of this replicator already: {other}",
            code="RPL-6523",
            table=str(self.table),
            hint="BigQuery takes the two names for one: leave one out, or replicate it to another `datasetName`",
        )

    def superseded(self, epoch: int | None = None) -> FencedError:  # noqa: ARG002 - the statement that finds it does not return it
        """Returns the error for a table that a newer run has taken over."""
        return FencedError(
            f"a newer run has taken the table over from run {self.epoch}",
            code="RPL-6525",
            table=str(self.table),
            hint=SUPERSEDED_HINT,
        )
