"""What one commit changes of a table of versions that is compared (`replicator_sdk.row_versions.difference`)."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from replicator_sdk.batch import TableChanges
from replicator_sdk.row_versions.difference import Difference, Ending
from replicator_sdk.row_versions.version_columns import VersionColumns
from replicator_sdk.schema import TableSchema
from replicator_target_delta.apply.key_lookup import Place
from replicator_target_delta.apply.row_removal import FileChanges, Written
from replicator_target_delta.files.file_writer import FileWriter
from replicator_target_delta.files.live_files import DataFile
from replicator_target_delta.schema.encoding import encode_keys, encode_rows
from replicator_target_delta.schema.metadata_columns import Stamper
from replicator_target_delta.schema.table_form import TableForm
from replicator_target_delta.schema.types import Layout
from replicator_target_delta.versions.current_versions import CurrentFiles
from replicator_target_delta.versions.version_columns import version_columns

Work = Difference[DataFile]


def differing(
    place: Place,
    columns: VersionColumns,
    ending: Ending,
    fill: Callable[[Work], None],
    *,
    layout: Layout,
    schema: TableSchema | None = None,
) -> FileChanges:
    """The files to commit.

    Args:
        place: Where and how.
        columns: The table's columns.
        ending: What ends versions.
        fill: Gives rows and keys.
        layout: The table's columns, by the names of `schema`.
        schema: The source's, whose key and columns are compared; None where nothing is given to compare.
    """
    names = ((), ()) if schema is None else (schema.primary_key, schema.names)
    keys, compared = ([layout[name].physical for name in each] for each in names)
    files = CurrentFiles(place, columns)
    storage, size = place.storage, place.target_bytes
    with FileWriter(storage, size) as current, FileWriter(storage, size) as past:
        work = Work(files, columns, keys, compared, ending, current.add, past.add)
        fill(work)
        add = [*work.whole, *current.finish(), *past.finish()]
        return Written(add, files.removed()).to_changes(storage, place.state.files)


def replace_versions(place: Place, changes: TableChanges, form: TableForm, ending: Ending) -> FileChanges:
    """The files to commit where rows are written again: the versions that differ from them end.

    Args:
        place: Where and how.
        changes: As `RepairableConsumer.repair_rows` gets them: INSERTs are rows that are to be there, DELETEs keys that are not.
        form: The table's form.
        ending: What ends versions that differ; the others begin with its number and time.
    """
    layout, schema = place.state.layout, changes.schema
    stamper = Stamper(form.names, str(changes.identity))

    def keys(rows: pa.Table) -> pa.Table:
        return encode_keys(rows, schema, layout)

    def versions(rows: pa.Table) -> pa.Table:
        return encode_rows(rows, layout, stamper.snapshot(rows.num_rows, ending.number, ending.time))

    columns = version_columns(layout, form.names)
    return differing(
        place, columns, ending, lambda work: work.repair(changes, keys, versions), layout=layout, schema=schema
    )
