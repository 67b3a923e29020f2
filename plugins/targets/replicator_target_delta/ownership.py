"""Who may write a Delta table, and the errors for those who may not."""

from __future__ import annotations

from replicator_sdk.authoring.table_ownership import SUPERSEDED_HINT, TableOwnership
from replicator_sdk.context import DeltaTargetContext
from replicator_sdk.errors import FencedError, NeedsUserError
from replicator_sdk.schema import TableId


class DeltaOwnership(TableOwnership):
    """Who may write the table in the folder `path`, with this target's errors."""

    def __init__(self, table: TableId, context: DeltaTargetContext, path: str) -> None:
        super().__init__(table, context)
        self._path = path

    def foreign(self, whose: str) -> NeedsUserError:
        """Returns the error for a folder that is not this replicator's."""
        return NeedsUserError(
            f"the table at {self._path} is {whose}",
            code="RPL-3404",
            table=str(self.table),
            hint="choose another `path`, or move that table away",
        )

    def occupied(self, other: TableId) -> NeedsUserError:  # noqa: ARG002 - the folder says enough
        """Returns the error for a folder of another table."""
        return NeedsUserError(
            f"the folder {self._path} holds another table of this replicator already",
            code="RPL-3408",
            table=str(self.table),
            hint="the store takes the two names for one: replicate one of them to another `path`",
        )

    def superseded(self, epoch: int | None) -> FencedError:
        """Returns the error for a table that a newer run has taken over."""
        return FencedError(
            f"run {epoch} has taken the table over from run {self.epoch}",
            code="RPL-8401",
            table=str(self.table),
            hint=SUPERSEDED_HINT,
        )
