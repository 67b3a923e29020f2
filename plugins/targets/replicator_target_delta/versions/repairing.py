"""Writes some rows of a table of versions again: the versions that differ from them end."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from replicator_sdk.batch import TableChanges
from replicator_sdk.event import DMLOperation
from replicator_sdk.row_versions.difference import Ending
from replicator_target_delta.apply.key_lookup import Place
from replicator_target_delta.apply.row_removal import FileChanges
from replicator_target_delta.schema.encoding import encode_keys, encode_rows
from replicator_target_delta.schema.metadata_columns import Stamper
from replicator_target_delta.schema.table_form import TableForm
from replicator_target_delta.versions.difference import difference
from replicator_target_delta.versions.version_columns import version_columns


def replace_versions(place: Place, changes: TableChanges, form: TableForm, ending: Ending) -> FileChanges:
    """The files to commit.

    Args:
        place: Where and how.
        changes: As `RepairableConsumer.repair_rows` gets them: INSERTs are rows that are to be there, DELETEs keys that are not.
        form: The table's form.
        ending: What ends versions that differ; the others begin with its number and time.
    """
    layout, schema = place.state.layout, changes.schema
    stamper, columns = Stamper(form.names, str(changes.identity)), version_columns(layout, form.names)
    with difference(place, columns, ending, layout, schema) as work:
        for batch in changes.batches():
            deleted = batch.op.to_numpy(zero_copy_only=False) == DMLOperation.DELETE
            if deleted.any():
                assert batch.before is not None
                which = pa.array(np.flatnonzero(deleted))
                own = [batch.before.field(name).take(which) for name in schema.primary_key]
                work.end(encode_keys(pa.table(own, names=list(schema.primary_key)), schema, layout))
            rows = pa.Table.from_arrays(batch.row.flatten(), schema=schema.arrow).filter(pa.array(~deleted))
            stamps = stamper.snapshot(rows.num_rows, ending.number, ending.time)
            work.take(encode_rows(rows, layout, stamps))
        return work.finish()
