"""What a merge-on-read table is keyed by: primary key, watermark keys, tombstone key (seed 002)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from replicator_sdk.errors import NeedsUserError

# Names of the table properties; only the last one is named by the seed, the others are in its style.
PRIMARY_KEY, WATERMARK_KEY, TOMBSTONE_KEY = "primary_key", "watermark_key", "tombstone_key"
TOMBSTONE_STRING_KEY_VALUE = "tombstone_string_key_value"

_PRIMITIVE = re.compile(
    r"(boolean|tinyint|smallint|int|bigint|float|double|date|timestamp|timestamp_ntz|binary"
    r"|decimal\(\d+, ?\d+\)|string|string collate \w+|(var)?char\(\d+\))"
)
_STRING = re.compile(r"string.*|(var)?char\(\d+\)")


@dataclass(frozen=True)
class MergeOnReadDefinition:
    """The keys of a table whose writers only append. Immutable.

    Args:
        primary_key: Columns that name a row; NULL is a value like others.
        watermark_keys: Columns whose values, compared one after the other, say how fresh a row is; NULL is smallest.
        tombstone_key: The column that says that a row is deleted, if there is one.
        tombstone_string_key_value: What a tombstone key of a string type has when its row is deleted. Without it,
            every value but NULL means deleted.

    Raises:
        NeedsUserError: RPL-1901 when a key is missing, or a column has two parts.
    """

    primary_key: tuple[str, ...]
    watermark_keys: tuple[str, ...]
    tombstone_key: str | None = None
    tombstone_string_key_value: str | None = None

    def __post_init__(self) -> None:
        if not self.primary_key or not self.watermark_keys:
            raise _refused("it has no primary key, or no watermark key")
        names = self.columns()
        if doubled := sorted({name for name in names if names.count(name) > 1}):
            raise _refused(f"columns have more than one part in it: {', '.join(doubled)}")
        if self.tombstone_string_key_value is not None and self.tombstone_key is None:
            raise _refused(f"{TOMBSTONE_STRING_KEY_VALUE} is set without a tombstone key")

    def columns(self) -> tuple[str, ...]:
        """Every column the definition names, in the order of its parts."""
        return (*self.primary_key, *self.watermark_keys, *((self.tombstone_key,) if self.tombstone_key else ()))

    def renamed(self, name: Callable[[str], str]) -> MergeOnReadDefinition:
        """The same for columns of other names.

        Args:
            name: Returns the other name of a column.
        """
        tombstone = None if self.tombstone_key is None else name(self.tombstone_key)
        return MergeOnReadDefinition(
            tuple(map(name, self.primary_key)),
            tuple(map(name, self.watermark_keys)),
            tombstone,
            self.tombstone_string_key_value,
        )

    def check(self, columns: Mapping[str, str]) -> None:
        """Check that each key is a column of a primitive type, spelled as the table spells it.

        Args:
            columns: Name of each column → Spark's name of its type, as `dict(dataframe.dtypes)`.

        Raises:
            NeedsUserError: RPL-1901 when one is not.
        """
        for name in self.columns():
            if name not in columns:
                raise _refused(f"the table has no column {name}")
            if not _PRIMITIVE.fullmatch(columns[name].lower()):
                raise _refused(f"column {name} of type {columns[name]} cannot be a key: keys are of primitive types")
        if self.tombstone_string_key_value is not None and not is_string(columns[str(self.tombstone_key)]):
            raise _refused(f"{TOMBSTONE_STRING_KEY_VALUE} is set, and column {self.tombstone_key} is not a string")

    def to_properties(self) -> dict[str, str]:
        """The definition as table properties; names of columns are a JSON array, since they may contain commas."""
        properties = {
            PRIMARY_KEY: json.dumps(self.primary_key, ensure_ascii=False),
            WATERMARK_KEY: json.dumps(self.watermark_keys, ensure_ascii=False),
        }
        if self.tombstone_key is not None:
            properties[TOMBSTONE_KEY] = self.tombstone_key
        if self.tombstone_string_key_value is not None:
            properties[TOMBSTONE_STRING_KEY_VALUE] = self.tombstone_string_key_value
        return properties

    @staticmethod
    def from_properties(properties: Mapping[str, str]) -> MergeOnReadDefinition:
        """The definition that `to_properties` wrote; other properties are left out.

        Raises:
            NeedsUserError: RPL-1901 when there is none, or it is damaged.
        """
        return MergeOnReadDefinition(
            _names(properties, PRIMARY_KEY),
            _names(properties, WATERMARK_KEY),
            properties.get(TOMBSTONE_KEY),
            properties.get(TOMBSTONE_STRING_KEY_VALUE),
        )


def is_string(kind: str) -> bool:
    """Whether Spark's name of a type is one of a string type."""
    return _STRING.fullmatch(kind.lower()) is not None


def _names(properties: Mapping[str, str], name: str) -> tuple[str, ...]:
    try:
        value = json.loads(properties.get(name, "[]"))
    except ValueError:
        value = None
    if not isinstance(value, list) or not all(isinstance(column, str) for column in value):
        raise _refused(f"table property {name} is not a JSON array of names of columns")
    return tuple(value)


def _refused(message: str) -> NeedsUserError:
    return NeedsUserError(
        f"a definition of a merge-on-read table is wrong: {message}",
        code="RPL-1901",
        hint="correct the keys that the table's properties, or the program that reads it, name",
    )
