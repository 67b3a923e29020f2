"""A Delta table's transaction log, through Spark's own Delta library in the JVM.

The library checks protocol and conflicts, writes the commit atomically for the storage at hand, and keeps checkpoints. What
a commit holds is ours: files, table metadata and our progress in one version.
"""

from __future__ import annotations

import contextlib
import json
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

from py4j.protocol import Py4JJavaError

from replicator_sdk.errors import NeedsUserError, RetryableError
from replicator_target_delta.ddl.table_folder import file_system, name_client
from replicator_target_delta.file_index.actions import to_columns
from replicator_target_delta.file_index.file_index import FileIndex
from replicator_target_delta.files.full_disk import FULL_WORDS, no_space
from replicator_target_delta.files.live_files import DataFile
from replicator_target_delta.files.storage import Stamp, Storage
from replicator_target_delta.jvm_classes import DELTA, JvmClasses
from replicator_target_delta.location import is_on_disk
from replicator_target_delta.log.conditional_commit import ConditionalCommit, check_timestamps, is_conditional
from replicator_target_delta.log.log_replay import Content, domain_in_commit, replay
from replicator_target_delta.log.log_segment import segment_files
from replicator_target_delta.log.removed_names import removed_names
from replicator_target_delta.log.table_state import State
from replicator_target_delta.schema.types import Layout

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession

    from replicator_sdk.schema import TableId

DOMAIN: Final = "replicator.progress"
UNMATCHED_DOMAIN: Final = "replicator.unmatched"
OPERATION: Final = "STREAMING UPDATE"
"""Delta's name for the kind of our commits."""
# Delta writes a checkpoint each `delta.checkpointInterval` commits where maintenance does not; a listing finds it.
_MANY_COMMITS: Final = 600
# What Delta's own commits take by default; only where the commits are ours.
_CHECKPOINT_EACH: Final = 100
# For as long as a commit of another thread may take from its file to where it is remembered.
_LOOKS: Final = 20
_LOOK_SECONDS: Final = 0.01
_COORDINATED: Final = "delta.coordinatedCommits"
_RETENTION: Final = "delta.logRetentionDuration"
_FILE_RETENTION: Final = "delta.deletedFileRetentionDuration"
_SESSION: Final = "org.apache.spark.sql.classic.SparkSession"
_CONVERTERS: Final = "scala.jdk.javaapi.CollectionConverters"
_CLEANUP: Final = "delta.enableExpiredLogCleanup"
_CAUSES: Final = 8  # of an exception, since a chain may be a ring
_UNWRITABLE: Final = (
    "DELTA_CANNOT_CREATE_LOG_PATH",
    "AccessControl",
    "AccessDenied",
    "Permission denied",
    "Read-only file system",
    "ParentNotDirectory",
    "Parent path is not a directory",
    "Not a directory",
    "Mkdirs failed",
    "401 Unauthorized",  # as Google's connector says it
    "403 Forbidden",
)


class TableLog:
    """The log of the table at `path`, which errors about the table alone name as `table`. Used by one thread at a time.

    The state of the version read or written last is remembered until the process ends, or `forget`, so that a new consumer, or
    maintenance, need not read it again; with the table's files it takes some 130 bytes a file (`FileIndex`). It counts only while that very version of that very table is the newest in storage.

    Delta lists the whole folder of the log at the start of each transaction, on most stores also the commits before the last
    checkpoint: after 100,000 commits that took two seconds. So the newest version is found by two look-ups instead: the commit
    file of the remembered version is still the same one, and no file has the next version's name.
    """

    _states: ClassVar[dict[str, State]] = {}

    def __init__(self, spark: SparkSession, path: str, table: TableId | None = None) -> None:
        self.path = path
        self._table = table
        self.storage = Storage(path)
        self._spark = spark
        self._classes = JvmClasses.of(spark)
        name_client(spark, path)
        self.conditional = ConditionalCommit(spark, path) if is_conditional(spark, path) else None
        with self.calls():
            self._log: Any = self._classes[f"{DELTA}.DeltaLog"].forTable(spark._jsparkSession, path)  # noqa: SLF001
            if is_on_disk(path):
                # Hadoop keeps checksums of local files in files beside them; no reader of Delta needs them in a log.
                file_system(spark, path).setWriteChecksum(False)

    def calls(self) -> translated:
        """Around all calls of the library: without an active session of the calling thread it cannot read a checkpoint.

        It only logs that: no checkpoint is written any more, nor the checksum of a version after one whose checksum is missing,
        so that every commit computes the table's state.
        """
        self._classes[_SESSION].setActiveSession(self._spark._jsparkSession)  # noqa: SLF001
        return translated(self.path)

    def begin(self) -> Transaction:
        """A transaction on the newest version there is in storage."""
        with self.calls():
            state = self._states.get(self.path)
            if state is not None and (handle := self._on_known(state)) is not None:
                return Transaction(self, handle, state)
            handle = self._log.startTransaction()
            snapshot = handle.snapshot()
            stamp = self.stamp(int(snapshot.version()))
            if state is None or not _is_of(state, snapshot) or state.stamp != stamp:
                state = replace(self._read(snapshot, int(snapshot.version())), stamp=stamp)
            self._states[self.path] = state
        return Transaction(self, handle, state)

    def known_state(self) -> State | None:
        """The remembered state; None when its version is not the newest one in storage, or not in storage at all.

        A commit that another thread is making is waited for, since its version is in storage shortly before it is remembered.
        """
        for _ in range(_LOOKS):
            state = self._states.get(self.path)
            if state is None or not state.stamp or self.stamp(state.version) != state.stamp:
                return None
            if self.stamp(state.version + 1) is None:
                return state
            time.sleep(_LOOK_SECONDS)
        return None

    def _on_known(self, state: State) -> Any:
        """A transaction on the remembered version, started without a listing; None where the log has to be listed."""
        snapshot = self._log.unsafeVolatileSnapshot()
        if state.stamp is None or not _is_of(state, snapshot) or _needs_listing(state, snapshot):
            return None
        if self.stamp(state.version) != state.stamp or self.stamp(state.version + 1) is not None:
            return None
        return self._log.startTransaction(self._none, self._option.apply(snapshot))

    def state_at(self, version: int) -> State:
        """An earlier version, read from the log; not remembered."""
        with self.calls():
            return self._read(self._log.getSnapshotAt(version, self._none, self._none, False), version)

    def stored_by(self, version: int) -> dict[str, Any] | None:
        """What the commit of a version stores in our domain; None when it stores nothing there.

        Raises:
            FileNotFoundError: When the commit's file is gone.
        """
        content = domain_in_commit(self.storage, f"{version:020}.json", DOMAIN)
        return None if content is None else json.loads(content)

    def stamp(self, version: int) -> Stamp | None:
        """Size and time of a version's commit file, which another file of its name would not share; None when there is none."""
        return self.storage.stamp(f"_delta_log/{version:020}.json") if version >= 0 else None

    def forget(self) -> None:
        """Have the next `begin` read everything again, also in the JVM."""
        self._states.pop(self.path, None)
        deltalog = self._classes[f"{DELTA}.DeltaLog"]
        with self.calls():
            deltalog.invalidateCache(self._spark._jsparkSession, self._classes.path(self.path))  # noqa: SLF001
            self._log = deltalog.forTable(self._spark._jsparkSession, self.path)  # noqa: SLF001

    def checkpoint(self, commits: int) -> bool:
        """Write a checkpoint when at least `commits` versions came since the last, so that a commit need not.

        Returns:
            Whether it did.

        Raises:
            RetryableError: RPL-4409 when the library could not write it; it only logs that.
        """
        with self.calls():
            snapshot = self._log.unsafeVolatileSnapshot()
            last = self._log.readLastCheckpointFile()
            done = int(last.get().version()) if last.isDefined() else 0
            if int(snapshot.version()) - done < commits:
                return False
            self._log.checkpoint(snapshot, self._none)
            written = self._log.readLastCheckpointFile()
            if not written.isDefined() or int(written.get().version()) < int(snapshot.version()):
                raise RetryableError(
                    f"Delta has written no checkpoint of version {int(snapshot.version())} at {self.path}",
                    code="RPL-4409",
                    hint="tried again by itself; Spark's log has the cause, with `spark.log.level` WARN",
                )
            self._log.update(False, self._none, self._none)  # lists the log: the JVM keeps only the commits after it
        return True

    def clean_up(self, hours: int) -> None:
        """Delete commits older than `hours` that a checkpoint has replaced; for as long as the table says where it says so."""
        with self.calls():
            snapshot = self._log.unsafeVolatileSnapshot()
            own = json.loads(snapshot.metadata().json())["metaData"]["configuration"]
            if _RETENTION in own or own.get(_CLEANUP, "true").lower() == "false":
                return  # set by the table's owner, and kept by Delta at each checkpoint
            classes = self._classes
            milliseconds = classes["scala.jdk.javaapi.OptionConverters"].toScala(
                classes["java.util.OptionalLong"].of(hours * 3_600_000)
            )
            granularity = classes.scala_object(f"{DELTA}.TruncationGranularity").HOUR()
            self._log.cleanUpExpiredLogs(snapshot, self._none, milliseconds, granularity)

    def own_retention_hours(self) -> int:
        """For how long the table's owner wants removed files kept, rounded up; 0 where the table does not say it."""
        with self.calls():
            metadata = self._log.unsafeVolatileSnapshot().metadata()
            if _FILE_RETENTION not in json.loads(metadata.json())["metaData"]["configuration"]:
                return 0
            deltalog = self._classes.scala_object(f"{DELTA}.DeltaLog")
            return -(-int(deltalog.tombstoneRetentionMillis(metadata)) // 3_600_000)

    def removed_names(self, since: int) -> frozenset[str] | None:
        """What `removed_names` finds in the log of the version that `begin` gave last."""
        with self.calls():
            segment = self._log.unsafeVolatileSnapshot().logSegment()
            return removed_names(self.storage, *segment_files(segment), since)

    @property
    def _none(self) -> Any:
        return self._option.empty()

    @property
    def _option(self) -> Any:
        return self._classes["scala.Option"]

    @property
    def remembered(self) -> State | None:
        """The state that is remembered, whether or not it is the newest in storage."""
        return self._states.get(self.path)

    def remember(self, state: State) -> None:
        """Take `state` for what the version it names holds; only for the commit just made."""
        self._states[self.path] = state

    def take_in(self, version: int, handle: Any, actions: Any, commit: Any) -> None:
        """Have the JVM learn of the version that was written past it, and a checkpoint written when one is due.

        As Delta does after a commit of its own: what it knows of the version before and the commit's actions make the version's
        checksum, so nothing is listed or read. The log is listed only where the checksum of the version before is not known.

        Args:
            version: The version.
            handle: The transaction that prepared it.
            actions: Its actions, as that transaction prepared them.
            commit: The `FileStatus` of its file.
        """
        derived = handle.incrementallyDeriveChecksum(
            self._spark._jsparkSession,  # noqa: SLF001
            self._log,
            version,
            actions,
            self._option.apply(handle.metadata()),
            self._option.apply(handle.protocol()),
            OPERATION,
            self._option.apply(handle.txnId()),
            self._classes["scala.util.Left"](handle.snapshot()),
            False,
            False,
        ).toOption()
        if derived.isDefined():
            if self.conditional is not None:
                self.conditional.write_checksum(version, derived.get())
            written = self._classes["io.delta.storage.commit.Commit"](version, commit, commit.getModificationTime())
            segment = handle.preCommitLogSegment()
            self._log.updateAfterCommit(
                version, self._option.apply(written), derived, segment, self._none, self._none, False
            )
        else:
            self._log.update(False, self._none, self._none)
        if version and version % _CHECKPOINT_EACH == 0:
            with contextlib.suppress(RetryableError):  # the commit is made; maintenance tries again and reports it
                self.checkpoint(_CHECKPOINT_EACH)

    def metadata_at(self, version: int) -> dict[str, Any] | None:
        """The `metaData` as the library wrote it with `version`; None when there is a later version already."""
        snapshot = self._log.unsafeVolatileSnapshot()
        if int(snapshot.version()) != version:
            return None
        metadata: dict[str, Any] = json.loads(snapshot.metadata().json())["metaData"]
        return metadata

    def _read(self, snapshot: Any, version: int) -> State:
        if version < 0:
            return State(version, {}, Layout(()), FileIndex(), None)
        metadata = json.loads(snapshot.metadata().json())["metaData"]
        content = self._replayed(snapshot) or self._computed(snapshot)
        if any("delta.columnMapping.physicalName" not in f["metadata"] for f in _fields(metadata)):
            raise NeedsUserError(
                f"there is a Delta table at {self.path} that this replicator did not create",
                code="RPL-3402",
                hint="choose another `path`, or move that table away",
                table=None if self._table is None else str(self._table),
            )
        return State(
            version,
            metadata,
            Layout.of(json.loads(metadata["schemaString"])),
            content.files,
            json.loads(content.domains[DOMAIN]) if DOMAIN in content.domains else None,
            unmatched=content.domains.get(UNMATCHED_DOMAIN, ""),
        )

    def _replayed(self, snapshot: Any) -> Content | None:
        """The content according to the log's files, when they are of a form that we read."""
        return replay(self.storage, *segment_files(snapshot.logSegment()))

    def _computed(self, snapshot: Any) -> Content:
        """The content as Spark jobs of the library compute it."""
        adds = [json.loads(text) for text in snapshot.allFiles().toJSON().collectAsList()]
        files = FileIndex.of([to_columns(list({add["path"]: add for add in adds}.values()))])
        domains = {d.domain(): d.configuration() for d in self.to_java(snapshot.domainMetadata()) if not d.removed()}
        return Content(files, domains)

    def to_java(self, values: Any) -> Any:
        """A Scala collection as one of Java, which Python can read."""
        return self._classes[_CONVERTERS].asJava(values)

    def to_scala(self, actions: Iterable[dict[str, Any]]) -> Any:
        """Actions as the library's own objects."""
        parse = self._classes.scala_object(f"{DELTA}.actions.Action").fromJson
        gathered = self._classes["java.util.ArrayList"]()
        for action in actions:
            gathered.add(parse(json.dumps(action)))
        return self._classes[_CONVERTERS].asScala(gathered).toSeq()

    def operation(self, writer: str, sequence: int, note: str) -> Any:
        """How the commit shows in the table's history: the writer, its last sequence number and a note."""
        # Not ManualUpdate: for that one the library recomputes the whole state after every commit.
        update = self._classes["org.apache.spark.sql.streaming.OutputMode"].Update()
        kind = self._classes[f"{DELTA}.DeltaOperations$StreamingUpdate"]
        return kind(update, writer, sequence, self._option.apply(note))


class Transaction:
    """One attempt to write the next version.

    Fails inside the commit when another process has written our domain meanwhile (a newer run, I6) or removed a file that
    this one removes.
    """

    def __init__(self, log: TableLog, handle: Any, state: State) -> None:
        self._log = log
        self._handle = handle
        self.state = state

    def commit(
        self,
        stored: dict[str, Any],
        *,
        writer: str,
        add: Iterable[DataFile] = (),
        remove: Iterable[DataFile] = (),
        metadata: dict[str, Any] | None = None,
        note: str = "",
        data_change: bool = True,
        unmatched: str | None = None,
    ) -> None:
        """Write one version holding all of it; durable on return.

        Args:
            stored: The new content of our domain.
            writer: Who writes, for the table's history.
            add: Files to add, or to have with another deletion vector.
            remove: Files to take away; a file in `add` with another vector is here with its old one.
            metadata: The new `metaData` content, when it changes.
            note: For the table's history.
            data_change: Whether rows are added or deleted; not when they only move to other files.
            unmatched: The new `State.unmatched`; None where it stays.

        Raises:
            RetryableError: When it did not, or perhaps did, come through.
        """
        added, removed = list(add), list(remove)
        actions = [f.remove(data_change=data_change) for f in removed] + [
            {"add": {**f.add, "dataChange": data_change}} for f in added
        ]
        domain = {"domain": DOMAIN, "configuration": json.dumps(stored), "removed": False}
        actions.append({"domainMetadata": domain})
        kept = self.state.unmatched if unmatched is None else unmatched
        if kept != self.state.unmatched:
            domain = {"domain": UNMATCHED_DOMAIN, "configuration": kept, "removed": not kept}
            actions.append({"domainMetadata": domain})
        sequence = int(stored.get("progress", {}).get("sequence", 0))
        if self.state.version < 0:
            self._log.storage.delete_left_log()
        with self._log.calls():
            if metadata is not None:
                parsed = self._log.to_scala([{"metaData": metadata}]).head()
                self._handle.updateMetadata(parsed, False)
            version = self._write(actions, writer, sequence, note)
        self._log.storage.sync_log(version)
        self._remember(version, added, removed, stored, kept, changed=metadata is not None)

    def _write(self, actions: list[dict[str, Any]], writer: str, sequence: int, note: str) -> int:
        """The version that holds the actions now."""
        operation = self._log.operation(writer, sequence, note)
        if self._log.conditional is None:
            with self._log.storage.committing():
                return int(self._handle.commit(self._log.to_scala(actions), operation))
        check_timestamps(self._log.path, self.state.metadata)
        version = self.state.version + 1
        prepared = self._handle.prepareCommit(self._log.to_scala(actions), operation)
        parameters = {"outputMode": "Update", "queryId": writer, "epochId": str(sequence)}
        description = {"operation": OPERATION, "operationParameters": parameters, "isBlindAppend": False}
        if version:
            description["readVersion"] = version - 1
        if note:
            description["userMetadata"] = note
        description["txnId"] = self._handle.txnId()
        texts = [str(action.json()) for action in self._log.to_java(prepared)]
        commit = self._log.conditional.write(version, texts, description)
        self._log.take_in(version, self._handle, prepared, commit)
        return version

    def _remember(
        self,
        version: int,
        added: list[DataFile],
        removed: list[DataFile],
        stored: dict[str, Any],
        unmatched: str,
        *,
        changed: bool,
    ) -> None:
        """Keep the new version's state, unless others wrote between (then it is read at the next `begin`)."""
        if version != self.state.version + 1:
            return
        metadata, layout = self.state.metadata, self.state.layout
        if changed:
            written = self._log.metadata_at(version)
            if written is None:
                return
            metadata, layout = written, Layout.of(json.loads(written["schemaString"]))
        files = self.state.files.changed(added, removed)
        stamp = self._log.stamp(version)
        self._log.remember(State(version, metadata, layout, files, stored, self.state.key, stamp, unmatched))


def _is_of(state: State, snapshot: Any) -> bool:
    """Whether `state` is the JVM's `snapshot`: a folder may hold another table by now, at the same version."""
    if state.version != int(snapshot.version()):
        return False
    return state.version < 0 or bool(state.metadata["id"] == snapshot.metadata().id())


def _needs_listing(state: State, snapshot: Any) -> bool:
    """Whether the JVM knows of too many commits since a checkpoint, or another service says which commits there are."""
    many = int(snapshot.logSegment().deltas().size()) > _MANY_COMMITS
    return many or any(key.startswith(_COORDINATED) for key in state.metadata["configuration"])


def _fields(metadata: dict[str, Any]) -> list[dict[str, Any]]:
    fields: list[dict[str, Any]] = json.loads(metadata["schemaString"])["fields"]
    return fields


class translated(contextlib.AbstractContextManager["translated"]):  # noqa: N801 - reads as a statement
    """Turns the JVM's exceptions into errors that say what and where; they never contain row values."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if not isinstance(error, Py4JJavaError):
            return
        name = str(error.java_exception.getClass().getSimpleName())
        text = str(error.java_exception.getMessage()).splitlines()[0][:300]
        if _is_full(error.java_exception):
            raise no_space(self._path) from error
        if any(word in f"{name} {text}" for word in _UNWRITABLE):
            raise NeedsUserError(
                f"the target cannot write {self._path}: {text}",
                code="RPL-3403",
                hint="grant write rights on it, renew the credentials if they have expired, or choose another `path`",
            ) from error
        raise RetryableError(f"{name} at {self._path}: {text}", code="RPL-4401", hint="retried by itself") from error


def _is_full(thrown: Any) -> bool:
    """Whether a full disk is the cause of an exception of the JVM; a commit wraps what its file system says."""
    for _ in range(_CAUSES):
        if thrown is None:
            return False
        if any(words in str(thrown.getMessage()) for words in FULL_WORDS):
            return True
        thrown = thrown.getCause()
    return False
