"""A commit in the making: columns, files and the table's record, published together or not at all.

The library's own transactions begin again from the newest metadata when another program was quicker, and would let a run that
was replaced commit after the run that replaced it. So a change is built with the library's transaction, but published by one
compare-and-swap of the metadata it began with: any other commit in between, of whomever, makes it fail.
"""

from __future__ import annotations

import itertools
import json
import os
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from py4j.protocol import Py4JError

from replicator_sdk.errors import RetryableError
from replicator_target_iceberg.arrangement.partitioning import Partition, Partitioning
from replicator_target_iceberg.arrangement.sorting import Sorting
from replicator_target_iceberg.config import CODEC, KEY_PROPERTIES, LEVEL, MAIN
from replicator_target_iceberg.files.data_file import NewFile
from replicator_target_iceberg.files.form import FileForm
from replicator_target_iceberg.files.live_files import DeleteRef, LiveFile
from replicator_target_iceberg.files.storage import Storage
from replicator_target_iceberg.jvm import Jvm, class_names, java_errors, java_exception
from replicator_target_iceberg.log.branch import copy_branch, tag_of
from replicator_target_iceberg.log.version import COMMIT, PROGRESS, Version
from replicator_target_iceberg.naming import local_path
from replicator_target_iceberg.schema.types import Layout

STATE_UNKNOWN: Final = "RPL-4423"
"""The code of the error of a commit that may have happened: the table is to be read again."""

_REFUSED: Final = frozenset({"CommitFailedException", "ConcurrentModificationException"})


class Change:
    """One commit of one table; used by one thread, once.

    Args:
        jvm: The Java side.
        transaction: Java's transaction, of a new table or of the version it begins with.
        base: That version; None for a new table.
        branch: What it commits to; made from the table's `main` where the table does not have it.
    """

    def __init__(self, jvm: Jvm, transaction: Any, base: Version | None, branch: str) -> None:
        self._jvm, self._transaction, self._version, self._branch = jvm, transaction, base, branch
        self._base = None if base is None else base.metadata
        self._stamps: dict[str, str] = {}
        self._aside: Any | None = None
        self._partitions: dict[Partition, Any] = {}
        self.name = uuid.uuid4().hex

    @property
    def is_beside_main(self) -> bool:
        """Whether it commits to another branch than `main`, whose rows are read under the same columns."""
        return self._branch != MAIN

    @property
    def schema(self) -> dict[str, Any]:
        """The columns as they will be, in Iceberg's JSON form."""
        with java_errors("read the table's columns"):
            found: dict[str, Any] = json.loads(self._jvm[".SchemaParser"].toJson(self._transaction.table().schema()))
            return found

    @property
    def layout(self) -> Layout:
        """The same."""
        return Layout.of(self.schema)

    @property
    def partitioning(self) -> Partitioning:
        """The specification by which files are written."""
        with java_errors("read the table's partitions"):
            spec = self._transaction.table().spec()
            return Partitioning.of(json.loads(self._jvm[".PartitionSpecParser"].toJson(spec)))

    @property
    def sorting(self) -> Sorting:
        """The table's sort order."""
        with java_errors("read the table's sort order"):
            order = self._transaction.table().sortOrder()
            return Sorting.of(json.loads(self._jvm[".SortOrderParser"].toJson(order)))

    @property
    def form(self) -> FileForm:
        """How new files are written."""
        with java_errors("read the table's properties"):
            asked = self._transaction.table().properties()
            properties = {name: text for name in (CODEC, LEVEL) if (text := asked.get(name)) is not None}
        return FileForm.of(self.partitioning, self.sorting, self.schema["fields"], properties)

    def specs(self) -> dict[int, Partitioning]:
        """All specifications that the table has had, by their numbers."""
        return specifications(self._jvm, self._transaction.table().specs().values())

    def sort_by(self, names: Iterable[tuple[str, bool, bool]]) -> None:
        """Give the table another sort order.

        Args:
            names: Of each column its name, whether the largest value is the first, and whether NULL is.
        """
        with java_errors("change the table's sort order"):
            update, nulls = self._transaction.replaceSortOrder(), self._jvm[".NullOrder"]
            # py4j does not find the interface's methods that take names.
            ref = self._jvm[".expressions.Expressions"].ref
            for name, is_descending, nulls_first in names:
                place = nulls.NULLS_FIRST if nulls_first else nulls.NULLS_LAST
                (update.desc if is_descending else update.asc)(ref(name), place)
            update.commit()

    @property
    def storage(self) -> Storage:
        """Where files of the table are written."""
        return Storage(str(self._transaction.table().location()))

    def update_columns(self, step: Callable[[Any], object]) -> None:
        """Change columns by one `UpdateSchema` of the library's, which `step` is given."""
        with java_errors("change the table's columns"):
            update = self._transaction.updateSchema()
            step(update)
            update.commit()

    def name_keys(self, properties: Mapping[str, str]) -> None:
        """Name a merge-on-read table's keys to its readers; none of another table's."""
        with java_errors("change the table's properties"):
            there, update = self._transaction.table().properties(), self._transaction.updateProperties()
            for name in KEY_PROPERTIES:
                if name in properties:
                    update.set(name, properties[name])
                elif there.get(name) is not None:
                    update.remove(name)
            update.commit()

    @property
    def key_properties(self) -> dict[str, str]:
        """The properties that name the table's keys to readers, as they will be."""
        with java_errors("read the table's properties"):
            asked = self._transaction.table().properties()
            return {name: text for name in KEY_PROPERTIES if (text := asked.get(name)) is not None}

    def replace_all(self, add: Iterable[NewFile]) -> None:
        """Take all files out and put these in."""
        with java_errors("replace the table's files"):
            update = self._transaction.newOverwrite().toBranch(self._branch)
            update.overwriteByRowFilter(self._jvm[".expressions.Expressions"].alwaysTrue())
            for file in add:
                update.addFile(self._data_file(file))
            self._finish(update)

    def change_rows(
        self,
        add: Iterable[NewFile],
        remove: Iterable[LiveFile] = (),
        old_deletes: Iterable[DeleteRef] = (),
        new_deletes: Iterable[DeleteRef] = (),
    ) -> None:
        """Put files in, take files out, and replace what says which rows are gone."""
        with java_errors("change the table's files"):
            update = self._transaction.newRowDelta().toBranch(self._branch)
            if self._version is not None and self._version.snapshot >= 0:
                # Vectors of before are taken up in the new ones; the library would take them for added since.
                update.validateFromSnapshot(self._version.snapshot)
            for file in add:
                update.addRows(self._data_file(file))
            for gone in remove:
                update.removeRows(self._live_file(gone))
            for ref in old_deletes:
                update.removeDeletes(self._delete_file(ref))
            for ref in new_deletes:
                update.addDeletes(self._delete_file(ref))
            self._finish(update)

    def append(self, add: Iterable[NewFile] = ()) -> None:
        """Put files in; without any, only the record is new."""
        with java_errors("add files to the table"):
            update = self._transaction.newAppend().toBranch(self._branch)
            for file in add:
                update.appendFile(self._data_file(file))
            self._finish(update)

    def put_aside(
        self, branch: str, add: Iterable[NewFile], properties: Mapping[str, str], *, begins: bool = False
    ) -> None:
        """Put files into another branch, whose snapshot then says `properties`; called before the commit's own files are given.

        Args:
            branch: Its name.
            add: The files.
            properties: What the snapshot's summary holds.
            begins: Whether the branch is made, and has nothing else.
        """
        with java_errors("put files into a branch"):
            transaction = self._transaction
            update = (transaction.newOverwrite() if begins else transaction.newAppend()).toBranch(branch)
            if begins:
                update.overwriteByRowFilter(self._jvm[".expressions.Expressions"].alwaysTrue())
            for file in add:
                (update.addFile if begins else update.appendFile)(self._data_file(file))
            for name, value in properties.items():
                update.set(name, value)
            update.commit()
            self._aside = transaction.table().snapshot(branch)

    def drop_copy(self, version: Version | None) -> None:
        """Drop the branch with a copy of versions that a table's version may have; its snapshots stay until they expire."""
        branch = copy_branch(self._branch)
        if version is not None and version.metadata.ref(branch) is not None:
            with java_errors("drop a branch"):
                self._transaction.manageSnapshots().removeBranch(branch).commit()

    def restore(self, snapshot: Any) -> None:
        """Have the rows and the columns of an earlier snapshot again; those of later ones stay, for time travel, until they expire."""
        with java_errors("bring an earlier snapshot of the table back"):
            operations = self._transaction.table().operations()
            base = operations.current()
            if (schema := snapshot.schemaId()) is not None and schema != base.currentSchemaId():
                # First, so that the commit's own snapshot says these columns, too.
                restored = self._jvm[".TableMetadata"].buildFrom(base).setCurrentSchema(schema).build()
                operations.commit(base, restored)
            update = self._transaction.manageSnapshots()
            if self._branch == MAIN:
                update.setCurrentSnapshot(snapshot.snapshotId())
            else:
                there = self._version is not None and self._version.head.is_there
                (update.replaceBranch if there else update.createBranch)(self._branch, snapshot.snapshotId())
            update.commit()
        self.append()

    def rewrite(self, add: Iterable[NewFile], remove: Iterable[LiveFile], old_deletes: Iterable[DeleteRef]) -> None:
        """Put files in the place of others that hold the same rows: readers of changes see nothing of it."""
        with java_errors("write the table's files again"):
            assert self._version is not None
            update = self._transaction.newRewrite().toBranch(self._branch)
            # What was deleted before is left out of the new files; the library would take it for deleted since.
            update.validateFromSnapshot(self._version.snapshot)
            for gone in remove:
                update.deleteFile(self._live_file(gone))
            for ref in old_deletes:
                update.deleteFile(self._delete_file(ref))
            for file in add:
                update.addFile(self._data_file(file))
            self._finish(update)

    def stamp(self, properties: Mapping[str, str]) -> None:
        """Say what the snapshot's summary holds; called before the files are."""
        self._stamps = {**properties, COMMIT: self.name}

    def _finish(self, update: Any) -> None:
        for name, value in self._stamps.items():
            update.set(name, value)
        update.commit()
        if PROGRESS in self._stamps:
            tags = self._transaction.manageSnapshots()
            tag = tag_of(self._branch)
            there = self._base is not None and self._base.ref(tag) is not None
            (tags.replaceTag if there else tags.createTag)(tag, self.snapshot())
            tags.commit()

    def publish(self) -> None:
        """Make it the table's newest version, if the one it began with still is; durable on return.

        Raises:
            RetryableError: RPL-4422 when another commit was quicker; nothing is changed then.
            RetryableError: RPL-4423 when it may have happened.
        """
        try:
            self._transaction.underlyingOps().commit(self._base, self._transaction.currentMetadata())
        except Exception as error:
            if java_exception(error) is None and not isinstance(error, Py4JError):
                raise
            names = class_names(error) or [type(error).__name__]  # Java is gone
            # One with a cause was thrown since the storage failed: a rename whose answer was lost may have happened.
            if names[0] == "AlreadyExistsException" or (names[0] in _REFUSED and len(names) == 1):
                raise RetryableError(
                    "another program has committed to the table since it was read",
                    code="RPL-4422",
                    hint="retried by itself; when it goes on, end the other program, or have it write at other times",
                ) from error
            raise RetryableError(
                f"whether a commit has happened is not known ({', '.join(names)})",
                code="RPL-4423",
                hint="retried by itself: the table is read first; check that the catalog can be reached",
            ) from error

    def snapshot(self) -> int:
        """The number of the snapshot that it makes."""
        return int(self.made().snapshotId())

    def made(self) -> Any:
        """Java's snapshot that it makes."""
        return self._transaction.table().snapshot(self._branch)

    def sync(self, storage: Storage) -> None:
        """Have what it wrote on this machine's disk survive a power cut."""
        for snapshot in filter(None, (self._aside, self.made())):
            listed = local_path(str(snapshot.manifestListLocation()))
            if listed is None:
                return
            folder, _, name = listed.rpartition("/")
            own = "-".join(name.removesuffix(".avro").split("-")[-5:])  # of all that this commit wrote
            manifests = (f"{folder}/{own}-m{number}.avro" for number in itertools.count())
            for path in (listed, *itertools.takewhile(os.path.exists, manifests)):
                storage.sync(path)
        if newest := local_path(str(self._transaction.underlyingOps().current().metadataFileLocation())):
            storage.sync(newest)

    def _data_file(self, file: NewFile) -> Any:
        table = self._transaction.table()
        made = self._in_partition(self._jvm[".DataFiles"].builder, file.partition)
        made = made.withPath(file.location).withFormat("parquet")
        if file.sorted_by and file.sorted_by in (orders := table.sortOrders()):
            made = made.withSortOrder(orders[file.sorted_by])
        measures = self._jvm[".MetricsConfig"].forTable(table)
        found = self._jvm[".parquet.ParquetUtil"].fileMetrics(table.io().newInputFile(file.location), measures)
        return made.withFileSizeInBytes(file.size).withMetrics(found).build()

    def _live_file(self, file: LiveFile) -> Any:
        made = self._in_partition(self._jvm[".DataFiles"].builder, file.partition).withPath(file.location)
        return made.withFormat("parquet").withFileSizeInBytes(file.size).withRecordCount(file.rows).build()

    def _delete_file(self, ref: DeleteRef) -> Any:
        made = self._in_partition(self._jvm[".FileMetadata"].deleteFileBuilder, ref.partition)
        made = made.ofPositionDeletes().withPath(ref.location)
        made = made.withFormat(ref.format).withFileSizeInBytes(ref.size).withRecordCount(ref.records)
        if ref.data_file:
            made = made.withReferencedDataFile(ref.data_file)
        if ref.offset is not None:
            made = made.withContentOffset(ref.offset).withContentSizeInBytes(ref.length)
        return made.build()

    def _in_partition(self, builder: Callable[[Any], Any], partition: Partition) -> Any:
        """A builder of a file of that partition."""
        spec = self._transaction.table().specs()[partition.spec]
        made = builder(spec)
        if not partition.values:
            return made
        if partition not in self._partitions:
            kind = spec.partitionType()
            values = zip(kind.fields(), partition.values, strict=True)
            text = json.dumps({str(field.fieldId()): value for field, value in values if value is not None})
            self._partitions[partition] = self._jvm[".SingleValueParser"].fromJson(kind, text)
        return made.withPartition(self._partitions[partition])


def specifications(jvm: Jvm, specs: Iterable[Any]) -> dict[int, Partitioning]:
    """The library's partition specifications by their numbers."""
    with java_errors("read the table's partitions"):
        found = [Partitioning.of(json.loads(jvm[".PartitionSpecParser"].toJson(spec))) for spec in specs]
    return {spec.number: spec for spec in found}
