"""Who may write an Iceberg table, and the errors for those who may not."""

from __future__ import annotations

from replicator_sdk.authoring.table_ownership import SUPERSEDED_HINT, TableOwnership
from replicator_sdk.context import DeltaTargetContext
from replicator_sdk.errors import FencedError, NeedsUserError
from replicator_sdk.schema import TableId


class IcebergOwnership(TableOwnership):
    """Who may write the table `name` of the catalog, with this target's errors."""

    def __init__(self, table: TableId, context: DeltaTargetContext, name: str) -> None:
        super().__init__(table, context)
        self._name = name

    def foreign(self, whose: str) -> NeedsUserError:
        """Returns the error for a table that is not this replicator's."""
        return NeedsUserError(
            f"the Iceberg table {self._name} is {whose}",
            code="RPL-3420",
            table=str(self.table),
            hint="choose another `catalog` or `warehouse`, or rename that table",
        )

    def superseded(self, epoch: int | None) -> FencedError:
        """Returns the error for a table that a newer run has taken over."""
        return FencedError(
            f"run {epoch} has taken the Iceberg table over from run {self.epoch}",
            code="RPL-8420",
            table=str(self.table),
            hint=SUPERSEDED_HINT,
        )
