"""What one commit changes of a table of versions that is compared (`replicator_sdk.row_versions.difference`)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from replicator_sdk.batch import TableChanges
from replicator_sdk.event import DMLOperation
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

    def fill(work: Work) -> None:
        for batch in changes.batches():
            deleted = batch.op.to_numpy(zero_copy_only=False) == DMLOperation.DELETE
            if deleted.any():
                assert batch.before is not None
                which = pa.array(np.flatnonzero(deleted))
                own = [batch.before.field(name).take(which) for name in schema.primary_key]
                keys = pa.table(own, names=list(schema.primary_key))
                work.end(encode_columns(keys, schema.primary_key, layout))
            rows = pa.Table.from_arrays(batch.row.flatten(), schema=schema.arrow).filter(pa.array(~deleted))
            work.take(copied_rows(rows, layout, place.table, ending.number, ending.time))

    return differing(place, schema, ending, fill)
