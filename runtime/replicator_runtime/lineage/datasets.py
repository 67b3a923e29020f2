"""What lineage says of one table: the datasets at source and target, and the column that each column comes from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from replicator_runtime.config import Pipeline
    from replicator_sdk import TableSchema
    from replicator_sdk.discovery.dataset import Dataset


@dataclass(frozen=True, slots=True)
class Field:
    """A column.

    Attributes:
        source: Its name at the source.
        source_type: Its type there, as the source's people write it.
        target: Its name at the target.
        type: The standard type its values travel in.
    """

    source: str
    source_type: str
    target: str
    type: str


@dataclass(frozen=True, slots=True)
class TableLineage:
    """A table's lineage; equal as long as nothing of it changes.

    Attributes:
        source: The dataset that is read.
        target: The dataset that is written.
        fields: Its columns, in the source's order.
        copy_id: The copy that the target has: the same under another name means that the table was renamed.
    """

    source: Dataset
    target: Dataset
    fields: tuple[Field, ...]
    copy_id: str = ""


def describe(
    pipeline: Pipeline, schema: TableSchema, recorded: tuple[str, Mapping[str, str]] | None, copy_id: str
) -> TableLineage:
    """The lineage of a table.

    Args:
        pipeline: Whose source and target name the datasets.
        schema: The table's newest schema.
        recorded: What a plugin has recorded of it by `context.lineage`, which counts more than what the target's description says.
        copy_id: As in `TableLineage`.
    """
    source, target = pipeline.source.dataset(schema.table), pipeline.target.dataset(schema.table)
    columns = dict(pipeline.target.dataset_columns(schema))
    if recorded is not None:
        target = type(target)(target.namespace, recorded[0])
        columns = dict(recorded[1])
    fields = tuple(
        Field(c.name, c.source_type or str(c.type), columns[c.name], str(c.type))
        for c in schema.columns
        if c.name in columns
    )
    return TableLineage(source, target, fields, copy_id)
