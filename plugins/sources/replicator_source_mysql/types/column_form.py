"""The parts of a column's type that decide how its values are read, and types read alike from log and text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

import pyarrow as pa

from replicator_sdk.authoring.refused_values import convert_marked
from replicator_sdk.batch import Refusal
from replicator_sdk.datatype import DataType
from replicator_source_mysql.definition import ColumnDefinition
from replicator_source_mysql.types.column_type import ColumnType, parse_column_type
from replicator_source_mysql.types.mapping import GEOMETRY, INTEGER_ALIASES
from replicator_source_mysql.types.values import charset
from replicator_source_mysql.types.values import fixed_bytes as binary_form
from replicator_source_mysql.types.values.out_of_range import ColumnPolicy, Policy

TEXT = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext"})
BLOBS = frozenset({"varbinary", "tinyblob", "blob", "mediumblob", "longblob"})
INTEGERS = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint"})
FLOATS = frozenset({"float", "double"})


@dataclass(frozen=True, slots=True)
class ColumnForm:
    """One column's type, parsed.

    Attributes:
        name: The type's name.
        type: Its parameters, members and sign.
        charset: The character set of text.
        target: The standard type of the result.
        policy: The rules for values out of range, and the errors.
        source: The type as the catalogue writes it.
    """

    name: str
    type: ColumnType
    charset: str
    target: DataType
    policy: ColumnPolicy
    source: str

    @classmethod
    def of(cls, column: ColumnDefinition, target: DataType, policy: Policy) -> ColumnForm:
        """The form of `column`.

        Raises:
            NeedsUserError: When it is text in a character set that cannot be decoded.
        """
        kind = parse_column_type(column.type)
        name = INTEGER_ALIASES.get(kind.name, kind.name)
        if name in TEXT:
            charset.check(column.charset, column.name, str(policy.table))
        return cls(name, kind, column.charset, target, policy.of(column.name), column.type)

    def convert_marked(
        self, convert: Callable[[pa.Array, ColumnForm], pa.Array], values: pa.Array
    ) -> tuple[pa.Array, Refusal | None]:
        """`values` converted one for one; those that `convert` raises `DataError` for are NULL, and the second part says which.

        What a rule replaces is counted once, however often `convert` is called.
        """

        def counted(part: pa.Array) -> pa.Array:
            replaced: Counter[str] = Counter()
            found = convert(part, replace(self, policy=replace(self.policy, replaced=replaced)))
            self.policy.replaced.update(replaced)
            return found

        nulls = self.policy.nulls
        lenient = None if nulls is None else replace(self, policy=nulls)
        return convert_marked(
            counted, values, self.target.arrow, None if lenient is None else lambda part: convert(part, lenient)
        )

    @property
    def digits(self) -> int:
        """Digits of a temporal type's fraction of a second."""
        return self.type.parameter(0, 0)


def text(raw: pa.BinaryArray, form: ColumnForm) -> pa.Array:
    """CHAR, VARCHAR and TEXT from bytes in the column's character set."""
    return charset.decode(raw, form.charset, form.policy)


def bits(raw: pa.BinaryArray, form: ColumnForm) -> pa.Array:
    """BIT(1) as a boolean, BIT(n) as big-endian bytes."""
    return binary_form.booleans(raw) if form.target.arrow == pa.bool_() else raw


SHARED: dict[str, Callable[[pa.BinaryArray, ColumnForm], pa.Array]] = {
    **dict.fromkeys(TEXT, text),
    **dict.fromkeys(BLOBS, lambda raw, _: raw),
    **dict.fromkeys(GEOMETRY, lambda raw, _: binary_form.well_known_binary(raw)),
    "bit": bits,
    "binary": lambda raw, form: binary_form.padded(raw, form.type.parameter(0, 1)),
    "vector": lambda raw, form: binary_form.floats(raw, form.target),
}
"""Types whose bytes are the same in the log and in a result set, where text is asked for in its own character set."""
