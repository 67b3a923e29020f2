"""The part of a table that the pipeline selects; stored with the table, so that an edit of the pipeline is noticed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from replicator_sdk import DDLOperation

if TYPE_CHECKING:
    from replicator_runtime.config import SelectedTable

DELETING = frozenset({"DELETE", DDLOperation.TRUNCATE_TABLE.value})
"""The names of the operations that remove rows."""
_WRITING = frozenset({"INSERT", "UPDATE"})
_STRUCTURE = frozenset(
    operation.value
    for operation in DDLOperation
    if operation not in {DDLOperation.TRUNCATE_TABLE, DDLOperation.CREATE_DATABASE, DDLOperation.DROP_DATABASE}
)


@dataclass(frozen=True, slots=True)
class TableScope:
    """The part of a table that is replicated.

    Attributes:
        columns: Names of the columns the pipeline gives; None for all.
        left_out: Names of the operations that change rows and are left out: those of `dmlBlacklist`, and TRUNCATE_TABLE
            where `ddlBlacklist` has it.
        structure: Names of the other operations of `ddlBlacklist` that concern tables; None when unknown.
    """

    columns: frozenset[str] | None
    left_out: frozenset[str]
    structure: frozenset[str] | None = None

    @property
    def keeps_deleted_rows(self) -> bool:
        """Whether the target may hold rows on purpose that the source has deleted."""
        return bool(self.left_out & DELETING)

    @property
    def lacks_written_rows(self) -> bool:
        """Whether the source has rows that never arrive at the target, although they may be removed there."""
        return bool(self.left_out & _WRITING)

    @classmethod
    def of(cls, selected: SelectedTable) -> TableScope:
        """What the pipeline selects now."""
        left_out = {operation.name for operation in selected.dml_blacklist}
        if DDLOperation.TRUNCATE_TABLE in selected.ddl_blacklist:
            left_out.add(DDLOperation.TRUNCATE_TABLE.value)
        structure = frozenset(operation.value for operation in selected.ddl_blacklist) & _STRUCTURE
        columns = None if selected.columns is None else frozenset(selected.columns)
        return cls(columns, frozenset(left_out), structure)

    def to_json(self) -> dict[str, Any]:
        """The JSON form kept in the table store."""
        return {
            "columns": None if self.columns is None else sorted(self.columns),
            "leftOut": sorted(self.left_out),
            "structure": None if self.structure is None else sorted(self.structure),
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> TableScope:
        """The inverse of `to_json`."""
        columns, structure = value["columns"], value.get("structure")
        return cls(
            None if columns is None else frozenset(columns),
            frozenset(value["leftOut"]),
            None if structure is None else frozenset(structure),
        )
