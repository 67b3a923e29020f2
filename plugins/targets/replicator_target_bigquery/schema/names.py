"""The source's names as BigQuery accepts them; two that become one are refused, never merged."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from replicator_sdk.datatype import Record
from replicator_sdk.errors import NeedsUserError
from replicator_sdk.schema import TableSchema
from replicator_target_bigquery.config import COMMITS, COPY, UNMATCHED, BigQueryConfig

_OTHER: Final = re.compile(r"[^A-Za-z0-9_]")
# Prefixes BigQuery keeps for itself, in any case.
_RESERVED: Final = ("_table_", "_file_", "_partition", "_row_timestamp", "__root__", "_colidentifier", "_change_")
_LONGEST_COLUMN: Final = 300
_LONGEST_TABLE: Final = 900  # of 1024, so that prefixes fit
STAGED_BEFORE: Final = "_before_"
LOG_PARTITION: Final = "_log_partition"


def column_name(name: str) -> str:
    """A column's name: letters, digits and underscores, beginning with no digit and with no prefix of BigQuery's."""
    plain = _OTHER.sub("_", name)[:_LONGEST_COLUMN] or "_"
    if plain[0].isdigit():
        plain = "_" + plain[: _LONGEST_COLUMN - 1]
    return "c" + plain[: _LONGEST_COLUMN - 1] if plain.lower().startswith(_RESERVED) else plain


def table_name(name: str) -> str:
    """A table's or dataset's name: letters, digits and underscores."""
    return _OTHER.sub("_", name)[:_LONGEST_TABLE] or "_"


def column_names(schema: TableSchema, own: Iterable[str]) -> dict[str, str]:
    """Source column → its name at the target.

    Args:
        schema: The table.
        own: The replicator's own columns in the same table.

    Raises:
        NeedsUserError: When two names become one, or a column takes a name of the replicator's.
    """
    names = {c.name: column_name(c.name) for c in schema.columns}
    taken = [*((kept, "the replicator") for kept in own), *((new, repr(name)) for name, new in names.items())]
    _refuse_twins(taken, str(schema.table))
    for column in schema.columns:
        if isinstance(column.type, Record):
            _refuse_field_twins(column.type, str(schema.table))
    return names


def _refuse_field_twins(kind: Record, table: str) -> None:
    _refuse_twins([(column_name(name), repr(name)) for name, _ in kind.fields], table)
    for _, inner in kind.fields:
        if isinstance(inner, Record):
            _refuse_field_twins(inner, table)


def _refuse_twins(taken: list[tuple[str, str]], table: str) -> None:
    seen: dict[str, str] = {}
    for new, of in taken:
        if (other := seen.get(new.lower())) is not None:
            raise NeedsUserError(
                f"columns of {other} and {of} both become {new} at BigQuery",
                code="RPL-6501",
                table=table,
                hint="leave one of them out by `columns`, or rename it at the source",
            )
        seen[new.lower()] = of


def staged_names(config: BigQueryConfig, table: str) -> str:
    """The staging table's name."""
    return config.staging_table_prefix + table


def is_own_table(config: BigQueryConfig, name: str) -> bool:
    """Whether a table of that name would be taken for one of the replicator's."""
    return is_of_one_table(config, name) or name.lower() == COMMITS


def is_of_one_table(config: BigQueryConfig, name: str) -> bool:
    """Whether a table of that name is what the replicator keeps beside one target table."""
    return name.startswith((config.staging_table_prefix, UNMATCHED, COPY))
