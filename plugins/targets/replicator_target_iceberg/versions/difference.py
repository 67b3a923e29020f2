"""What one commit changes of a table of versions that is compared (`replicator_sdk.row_versions.difference`)."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from replicator_sdk.batch import TableChanges
from replicator_sdk.row_versions.difference import Difference, Ending
from replicator_sdk.schema import TableSchema
from replicator_target_iceberg.apply.keyed import Place
from replicator_target_iceberg.apply.row_changes import RowChanges, take_out
from replicator_target_iceberg.files.data_file import NewFile
from replicator_target_iceberg.schema.encoding import encode_columns
from replicator_target_iceberg.schema.stamps import copied_rows
from replicator_target_iceberg.versions.current_versions import CurrentFiles
from replicator_target_iceberg.versions.history import writers

Work = Difference[NewFile]


def differing(place: Place, schema: TableSchema | None, ending: Ending, fill: Callable[[Work], None]) -> RowChanges:
    """The files to commit, `RowChanges.whole` among them.

    Args:
        place: Where and how.
        schema: The source's, whose key and columns are compared; None where nothing is given to compare.
        ending: What ends versions.
        fill: Gives rows and keys.
    """
    files, made = CurrentFiles(place), RowChanges(highest=ending.number)
    keys, compared = ((), ()) if schema is None else (schema.primary_key, schema.names)
    with writers(place) as (current, past):
        work = Work(files, files.columns, keys, compared, ending, current.add, past.add)
        fill(work)
        made.whole = {file.location for file in work.whole}
        made.add = [*work.whole, *current.finish(), *past.finish()]
        take_out(place.storage, files.removals(), place.format_version, made)
    return made


def replace_versions(place: Place, changes: TableChanges, ending: Ending) -> RowChanges:
    """The files to commit where rows are written again: the versions that differ from them end.

    Args:
        place: Where and how.
        changes: As `RepairableConsumer.repair_rows` gets them: INSERTs are rows that are to be there, DELETEs keys that are not.
        ending: What ends versions that differ; the others begin with its number and time.
    """
    schema, layout = changes.schema, place.layout

    def keys(rows: pa.Table) -> pa.Table:
        return encode_columns(rows, schema.primary_key, layout)

    def versions(rows: pa.Table) -> pa.Table:
        return copied_rows(rows, layout, place.table, ending.number, ending.time)

    return differing(place, schema, ending, lambda work: work.repair(changes, keys, versions))
