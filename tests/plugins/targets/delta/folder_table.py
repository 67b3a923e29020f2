"""A table in a folder that changes are applied to without Spark and without a log: for many short histories."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from replicator_sdk.batch import TableChanges
from replicator_sdk.net_change.numbering import Numbering
from replicator_sdk.row_versions.difference import Ending
from replicator_sdk.schema import TableSchema
from replicator_target_delta.apply.key_lookup import Place
from replicator_target_delta.apply.keyed import KeyedApply
from replicator_target_delta.apply.keyless import KeylessApply
from replicator_target_delta.apply.row_matching import live_rows
from replicator_target_delta.config import DeltaConfig
from replicator_target_delta.file_index.file_index import FileIndex
from replicator_target_delta.files.data_file import write_data_file
from replicator_target_delta.files.live_files import DataFile
from replicator_target_delta.files.storage import Storage
from replicator_target_delta.log.table_state import State
from replicator_target_delta.maintenance.compaction import Pack, plan_all_packs, writer
from replicator_target_delta.merge_on_read.append import AppendApply
from replicator_target_delta.schema.encoding import encode_rows
from replicator_target_delta.schema.metadata_columns import Stamper
from replicator_target_delta.schema.table_definition import TableDefinition
from replicator_target_delta.schema.table_form import form_of
from replicator_target_delta.schema.types import Layout
from replicator_target_delta.versions.difference import Work, differing, replace_versions
from replicator_target_delta.versions.history import VersionsApply
from replicator_target_delta.versions.version_columns import version_columns


class FolderTable:
    """One table; `state` is its version now."""

    def __init__(self, folder: Path, schema: TableSchema, **settings: Any) -> None:
        self.config = DeltaConfig(path=str(folder), **settings)
        self.schema = schema
        self.storage = Storage(str(folder))
        metadata = TableDefinition.create(schema, form_of(self.config, schema)).to_metadata()
        self.properties = metadata["configuration"]
        self.highest = 0
        self.now = 0
        self.state = State(0, metadata, Layout.of(json.loads(metadata["schemaString"])), FileIndex(), None)

    def apply(self, changes: TableChanges) -> None:
        """What `TableApply` does between the beginning and the commit."""
        place = Place(None, self.state, self.storage, self.config.target_file_bytes, self.config.soft_deletes)
        form = form_of(self.config, self.schema)
        names = form.names
        stamper = Stamper(names, str(changes.identity))
        if form.keys is not None:
            append = AppendApply(
                place, changes, stamper, form, Numbering(self.highest, changes.identity.first_sequence)
            )
            self._commit(append.write(), [])
            self.highest = append.highest
            return
        if form.has_versions:
            numbering = Numbering(self.highest, changes.identity.first_sequence)
            columns = version_columns(self.state.layout, names)
            versions = VersionsApply(place, changes, stamper, columns, numbering, now=self.now)
            made = versions.write().to_changes(self.storage, self.state.files)
            self._commit(made.add, made.remove)
            self.highest = versions.highest
            return
        if self.schema.primary_key:
            made = KeyedApply(place, changes, stamper).run()
            self._commit(made.add, made.remove)
            return
        keyless = KeylessApply(place, changes, stamper, names)
        made = keyless.append() if keyless.only_adds else keyless.run()
        waiting = keyless.unmatched
        unmatched = (
            self.state.unmatched if waiting is None else waiting.stored(changes.table, changes.identity.position)
        )
        self._commit(made.add, made.remove)
        self.state.unmatched = unmatched

    def copy(self, rows: Sequence[dict[str, Any]], time: int, number: int = 0) -> None:
        """Add rows as a copy reads them at a time."""
        stamps = Stamper(form_of(self.config, self.schema).names, "copy").snapshot(len(rows), number, time)
        read = pa.Table.from_pylist(list(rows), schema=self.schema.arrow)
        self._commit([DataFile(write_data_file(self.storage, encode_rows(read, self.state.layout, stamps)))], [])

    def copy_again(self, parts: Sequence[Sequence[dict[str, Any]]], began: int, time: int) -> None:
        """Have a table of versions hold the rows of a later copy, one file for each part, as `VersionsSnapshotLoad` does."""
        names, number = form_of(self.config, self.schema).names, self.highest + 1
        files = []
        for rows in parts:
            stamps = Stamper(names, "copy").snapshot(len(rows), number, time)
            read = pa.Table.from_pylist(list(rows), schema=self.schema.arrow)
            files.append(
                (encoded := encode_rows(read, self.state.layout, stamps), write_data_file(self.storage, encoded))
            )

        def fill(work: Work) -> None:
            for encoded, add in files:
                work.take(encoded, DataFile(add))
            work.end_others()

        place = Place(None, self.state, self.storage, self.config.target_file_bytes, soft_deletes=False)
        layout = self.state.layout
        columns = version_columns(layout, names)
        made = differing(place, columns, Ending(number, began), fill, layout=layout, schema=self.schema)
        self._commit(made.add, made.remove)
        self.highest = number

    def repair(self, changes: TableChanges, time: int) -> None:
        """Write rows of a table of versions again."""
        form, number = form_of(self.config, self.schema), self.highest + 1
        place = Place(None, self.state, self.storage, self.config.target_file_bytes, soft_deletes=False)
        made = replace_versions(place, changes, form, Ending(number, time))
        self._commit(made.add, made.remove)
        self.highest = number

    def compact(self, file_bytes: int, merges: int) -> int:
        """What `compact` does between the beginning and the commit; returns how many files were written again."""
        packs = plan_all_packs(self.state, file_bytes, merges)
        adds = [add for pack in packs for add in writer(pack, self.storage.root, self.state).write()]
        gone = self.state.files.actions(file for pack in packs for file in pack.files)
        self._commit([DataFile(add) for add in adds], gone)
        return len(gone)

    def fold(self, left: int) -> None:
        """Write the files again as one pack, but for the `left` oldest ones."""
        files = list(self.state.files)[left:]
        if files:
            adds = writer(Pack(files, 1, 0), self.storage.root, self.state).write()
            self._commit([DataFile(add) for add in adds], self.state.files.actions(files))

    def _commit(self, add: Sequence[DataFile], remove: Sequence[DataFile]) -> None:
        files = self.state.files.changed(add, remove)
        key = tuple(self.state.layout[name].physical for name in self.schema.primary_key)
        self.state = State(self.state.version + 1, self.state.metadata, self.state.layout, files, None, key)

    def arrow(self) -> pa.Table:
        """All live rows under their logical names, those that are kept as deleted included."""
        layout = self.state.layout
        found = [layout.physical.empty_table()]
        for file in self.state.files:
            vector, fields = file.vector, [c.arrow for c in layout.columns]
            found += list(live_rows(self.storage.root, file.location, vector, fields))
        names = [c.name for c in layout.columns]
        return pa.concat_tables(found).rename_columns(names)

    def rows(self) -> list[dict[str, Any]]:
        """The same as dictionaries."""
        found: list[dict[str, Any]] = self.arrow().to_pylist()
        return found
