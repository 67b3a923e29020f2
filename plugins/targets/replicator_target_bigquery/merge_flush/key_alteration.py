"""Changes of a key's schema: only backwards compatible ones (docs/seeds.md#000-bigquery).

A nullable field can be added, and NOT NULL can be removed. BigQuery alters no field inside a STRUCT by a statement, but the
key's values are in the row's own columns too: the key column is built again from them.
"""

from __future__ import annotations

from replicator_sdk.errors import SchemaDriftError
from replicator_target_bigquery.ddl.alteration import Alteration, Step
from replicator_target_bigquery.merge_flush.intermediate.key_column import key_field
from replicator_target_bigquery.schema.fields import Field
from replicator_target_bigquery.sql.text import name


class KeyAlteration(Alteration):
    """An ALTER_TABLE of a table with a key column."""

    def steps(self) -> list[Step]:
        """The steps of the columns, then those of the key.

        Raises:
            SchemaDriftError: As `Alteration`, and when the key changes in a way that is not backwards compatible.
        """
        schema, column = self._event.schema, self._config.kafka_key_field_name
        present = self._find(column) if column else None
        if schema is None or present is None:
            return super().steps()
        wanted = key_field(schema, column)
        if _strict(wanted, present) and wanted.holds(present):
            return super().steps()
        if not _is_compatible(present, wanted):
            raise SchemaDriftError(
                "the source changes the key in a way that is not backwards compatible",
                code="RPL-6607",
                table=str(self._event.table),
                position=str(self._event.position),
                hint="fields that may be NULL can be added, and NOT NULL taken away; copy the table again: `replicator table resync NAME TABLE --in-place`",
            )
        super().steps()
        former = self._set_aside(present)
        made = Field(wanted.name, wanted.type, fields=tuple(_relaxed(f) for f in wanted.fields))
        self._alter(f"ADD COLUMN {name(made.name)} {made.sql}", (*self._columns, made))
        self._fill(made, f"STRUCT({', '.join(f'{name(f.name)} AS {name(f.name)}' for f in made.fields)})")
        self._drop(former)
        return self._steps


def _strict(wanted: Field, present: Field) -> bool:
    """Whether the present key takes every key wanted: it requires no value that may be missing."""
    modes = {f.name.lower(): f.mode for f in present.fields}
    return all(modes.get(f.name.lower()) != "REQUIRED" or f.mode == "REQUIRED" for f in wanted.fields)


def _is_compatible(present: Field, wanted: Field) -> bool:
    """Whether the wanted key has every field of the present one, and others only that may be NULL."""
    new = {f.name.lower(): f for f in wanted.fields}
    kept = all(f.name.lower() in new and new[f.name.lower()].holds(f) for f in present.fields)
    old = {f.name.lower() for f in present.fields}
    return kept and all(f.mode != "REQUIRED" for f in wanted.fields if f.name.lower() not in old)


def _relaxed(kind: Field) -> Field:
    """A field as ADD COLUMN creates it."""
    return Field(kind.name, kind.type, "NULLABLE", kind.precision, kind.scale, kind.fields)
