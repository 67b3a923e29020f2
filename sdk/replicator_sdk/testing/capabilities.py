"""What a plugin can do, as class attributes of the suites; a case whose needs are not met is skipped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final

import pytest

from replicator_sdk.datatype import Array, DataType, Decimal, Record
from replicator_sdk.schema import TableSchema
from replicator_sdk.testing.failures.explained import explained
from replicator_sdk.testing.histories.history import History

ALL_TYPES: Final = frozenset(
    {
        *(
            "bool",
            "int8",
            "int16",
            "int32",
            "int64",
            "float32",
            "float64",
            "decimal",
            "string",
            "binary",
            "date",
            "time",
        ),
        *("timestamp", "instant", "json", "uuid", "array", "record"),
    }
)
"""Names of all standard types, without parameters; take from it what a plugin can keep."""


class Capabilities:
    """Flags shared by both suites. Set one to False for what the plugin refuses, and say so in its README.md."""

    supports_truncate: ClassVar[bool] = True
    """A table can be emptied by one statement, and that arrives as TRUNCATE_TABLE or as deletes."""

    supports_add_column: ClassVar[bool] = True
    """A column can be added to a table that is being replicated."""

    supports_drop_column: ClassVar[bool] = True
    """A column can be dropped from a table that is being replicated."""

    supports_rename_column: ClassVar[bool] = True
    """A column can be renamed in a table that is being replicated."""

    supports_retype_column: ClassVar[bool] = True
    """A column's type can change. A target may refuse it by `SchemaDriftError`; the kit then copies the table again."""

    supports_change_key: ClassVar[bool] = True
    """A table's key can change. A target may refuse it by `SchemaDriftError`; the kit then copies the table again."""

    supports_drop_table: ClassVar[bool] = True
    """A table can be dropped, and one of the same name be created."""

    supports_ddl_in_transaction: ClassVar[bool] = True
    """A schema change may be between row changes of one transaction."""

    supports_keyless: ClassVar[bool] = True
    """Tables without a key are replicated, equal rows counted."""

    supports_limit: ClassVar[bool] = True
    """A statement can change one of several equal rows (sources only)."""

    supports_null_keys: ClassVar[bool] = True
    """Key columns may hold NULL."""

    supports_unchanged: ClassVar[bool] = True
    """Columns that an update did not send keep their values (a source may send all of them)."""

    supports_tricky_names: ClassVar[bool] = True
    """Names may hold quotes, spaces, dots, capitals and emoji."""

    unsupported_types: ClassVar[frozenset[str]] = frozenset()
    """Names of standard types that cannot be stored, without parameters: `decimal`, `array`, `record`, `int8`, …"""

    largest_decimal: ClassVar[int] = 38
    """Digits of the widest decimal that is kept exactly."""

    skipped_cases: ClassVar[Mapping[str, str]] = {}
    """Case name → why it cannot hold here. For gaps that no flag describes; each belongs into the plugin's README.md."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Let the tests of every suite explain their failures."""
        super().__init_subclass__(**kwargs)
        for name, test in list(vars(cls).items()):
            if name.startswith("test_") and callable(test):  # a subclass sets a test to None to leave it out
                setattr(cls, name, explained(test))

    def require(self, case: History) -> None:
        """Skip the test when the plugin cannot do what the case needs."""
        if case.name in self.skipped_cases:
            pytest.skip(self.skipped_cases[case.name])
        missing = [need for need in sorted(case.needs) if not getattr(self, f"supports_{need}")]
        missing += [name for name in sorted(types_of(case.tables.values())) if name in self.unsupported_types]
        digits = max((t.precision for t in _decimals(case)), default=0)
        if digits > self.largest_decimal:
            missing.append(f"decimals of {digits} digits")
        if missing:
            pytest.skip(f"not supported here: {', '.join(missing)}")


def types_of(schemas: Iterable[TableSchema]) -> set[str]:
    """Names, without parameters, of all types in some schemas."""
    return {name for schema in schemas for c in schema.columns for name in _names(c.type)}


def _names(kind: DataType) -> Iterable[str]:
    if isinstance(kind, Array):
        return {"array", *_names(kind.element)}
    if isinstance(kind, Record):
        return {"record", *(name for _, field in kind.fields for name in _names(field))}
    return {"decimal" if isinstance(kind, Decimal) else kind.name}


def _decimals(case: History) -> Iterable[Decimal]:
    return (c.type for s in case.tables.values() for c in s.columns if isinstance(c.type, Decimal))
