"""Every point where a process is killed, and its twin: the part of the recovery without which that kill does harm.

The parts are explained in `removed_recovery`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Twin:
    """The result of a kill when a part of the recovery is removed.

    Attributes:
        removed: The part, a name of `removed_recovery.PARTS`.
        harm: "lost" or "doubled" rows, or the code of the error the next run then ends with.
        from_the_start: Whether the part must be gone in the killed run too; else it is in the next one only.
    """

    removed: str
    harm: str
    from_the_start: bool = False


@dataclass(frozen=True, slots=True)
class Restructure:
    """A change of structure beside which a run is killed.

    Attributes:
        statements: The change.
        twin: The result of the kill when a part of the recovery is removed, in the killed run and those after it.
        later: What happens at the source before the next run.
        good_runs: How many runs go well before the harm is seen.
    """

    statements: tuple[str, ...]
    twin: Twin
    later: tuple[str, ...] = ()
    good_runs: int = 0


_TAKE_OVER = Twin("lease", "RPL-7130")
_COPY_WHAT_IS_NOT_COPIED = Twin("begun", "lost")
_KNOW_THE_CHUNKS = Twin("chunks", "doubled")
_GO_ON_FROM_THE_SAVED_OFFSET = Twin("end", "lost")
_KNOW_THE_TABLES_PROGRESS = Twin("progress", "doubled")
_KNOW_THE_STRUCTURE = Twin("structure", "RPL-6401")
_SAVE_THE_OFFSET_LAST = Twin("order", "lost", from_the_start=True)
_COMMIT_ROWS_WITH_PROGRESS = Twin("commit", "doubled", from_the_start=True)
_IGNORE_ORPHANS = Twin("orphans", "doubled")

AT_THE_BEGINNING: Mapping[str, Twin] = {
    "state.lease.claimed": _TAKE_OVER,
    "state.put.before": _COPY_WHAT_IS_NOT_COPIED,
    "state.put.between": _COPY_WHAT_IS_NOT_COPIED,
    "state.put.after": Twin("identity", "RPL-7140"),
    "state.status.before": _GO_ON_FROM_THE_SAVED_OFFSET,
    "state.status.after": _GO_ON_FROM_THE_SAVED_OFFSET,
    "state.offset.before_write": _COPY_WHAT_IS_NOT_COPIED,
    "state.offset.after_write": _COPY_WHAT_IS_NOT_COPIED,
    "engine.offset.before_save": _COPY_WHAT_IS_NOT_COPIED,
    "engine.offset.after_save": _COPY_WHAT_IS_NOT_COPIED,
    "engine.snapshot.planned": _COPY_WHAT_IS_NOT_COPIED,
    "engine.snapshot.chunks_loaded": _KNOW_THE_CHUNKS,
    "engine.snapshot.finished": _KNOW_THE_CHUNKS,
    "file.commit.before": _COPY_WHAT_IS_NOT_COPIED,
    "file.commit.after": _COPY_WHAT_IS_NOT_COPIED,
}
"""While a new replicator copies what is there."""

ON_THE_WAY: Mapping[str, Twin] = {
    "state.put.between": _GO_ON_FROM_THE_SAVED_OFFSET,
    "state.offset.before_write": _KNOW_THE_TABLES_PROGRESS,
    "state.offset.after_write": _GO_ON_FROM_THE_SAVED_OFFSET,
    "engine.offset.before_save": _KNOW_THE_TABLES_PROGRESS,
    "engine.offset.after_save": _GO_ON_FROM_THE_SAVED_OFFSET,
    "engine.batch.gathered": _SAVE_THE_OFFSET_LAST,
    "engine.batch.applied": _KNOW_THE_TABLES_PROGRESS,
    "engine.table.before_apply": _SAVE_THE_OFFSET_LAST,
    "engine.table.after_apply": _KNOW_THE_TABLES_PROGRESS,
    "engine.ddl.before_apply": _GO_ON_FROM_THE_SAVED_OFFSET,
    "engine.ddl.after_apply": _KNOW_THE_STRUCTURE,
    "file.commit.before": _COMMIT_ROWS_WITH_PROGRESS,
    "file.commit.after": _KNOW_THE_TABLES_PROGRESS,
}
"""While it applies changes, among them a change of structure."""

OF_TAKE_OVER: Mapping[str, Twin] = {
    "state.adopt.before": _GO_ON_FROM_THE_SAVED_OFFSET,
    "state.adopt.after": _GO_ON_FROM_THE_SAVED_OFFSET,
    "state.offset.taken_over": _GO_ON_FROM_THE_SAVED_OFFSET,
}
"""While a run takes over what a killed one had stored, before it does anything else."""

OF_RELEASE: Mapping[str, Twin] = {
    "engine.release.before_save": _GO_ON_FROM_THE_SAVED_OFFSET,
    "engine.release.after_save": _COPY_WHAT_IS_NOT_COPIED,
    "engine.offset.before_save": _COPY_WHAT_IS_NOT_COPIED,
    "engine.offset.after_save": Twin("release", "lost", from_the_start=True),
}
"""While a table that failed for too long gives the log up; the points of the offset are those after that."""

LATER: Mapping[str, Twin] = {"state.lease.before_renew": _TAKE_OVER}
"""After some seconds of running."""

_ADD_COLUMN = "ALTER TABLE customer ADD COLUMN city TEXT DEFAULT 'Rome'"
_NEW_NOTES = ("CREATE TABLE note (text TEXT)", "INSERT INTO note VALUES ('new')")
_REBUILD = (
    "CREATE TABLE other (id INTEGER PRIMARY KEY, name TEXT, visits INTEGER)",
    "INSERT INTO other SELECT id, 'rebuilt', visits FROM customer",
    "DROP TABLE customer",
    "ALTER TABLE other RENAME TO customer",
    "ALTER TABLE customer ADD COLUMN size INTEGER DEFAULT 1",
)
BESIDE_STRUCTURE: Mapping[str, Restructure] = {
    "column": Restructure((_ADD_COLUMN,), Twin("schema", "RPL-6401"), good_runs=1),
    "copy": Restructure(_REBUILD, Twin("copy", "lost")),
    "drop": Restructure(("DROP TABLE note",), Twin("drop", "RPL-4101"), later=_NEW_NOTES),
}
"""Changes of structure, each killed when the target has it and the engine has noted nothing more."""

DELTA_AT_THE_BEGINNING: Mapping[str, Twin] = {
    "delta.snapshot.begun": _COPY_WHAT_IS_NOT_COPIED,
    "delta.snapshot.files_written": _IGNORE_ORPHANS,
    "delta.snapshot.committed": _KNOW_THE_CHUNKS,
    "delta.snapshot.finished": _KNOW_THE_CHUNKS,
}
DELTA_AT_ONCE: Mapping[str, Twin] = {
    "delta.snapshot.whole_written": _IGNORE_ORPHANS,
    "delta.snapshot.whole_committed": _KNOW_THE_CHUNKS,
}
"""While tables of one chunk are copied, each in one commit; in `DELTA_AT_THE_BEGINNING` they have several."""
DELTA_ON_THE_WAY: Mapping[str, Twin] = {
    "delta.files.written": _IGNORE_ORPHANS,
    "delta.vectors.written": _IGNORE_ORPHANS,
    "delta.commit.before": _GO_ON_FROM_THE_SAVED_OFFSET,
    "delta.commit.after": _KNOW_THE_TABLES_PROGRESS,
    "delta.ddl.before": _GO_ON_FROM_THE_SAVED_OFFSET,
    "delta.ddl.after": Twin("structure", "RPL-6407"),
}
DELTA_IN_MAINTENANCE: Mapping[str, Twin] = {
    "engine.maintenance.before": _GO_ON_FROM_THE_SAVED_OFFSET,
    "delta.compaction.written": _IGNORE_ORPHANS,
    "delta.vacuum.listed": _GO_ON_FROM_THE_SAVED_OFFSET,
    "delta.vacuum.deleted": _GO_ON_FROM_THE_SAVED_OFFSET,
    "delta.log.checkpointed": _GO_ON_FROM_THE_SAVED_OFFSET,
    "engine.maintenance.after": _GO_ON_FROM_THE_SAVED_OFFSET,
}
"""While tables are maintained beside a stream: what maintenance itself leaves undone is done again, and changes no rows."""

RESUMED_SNAPSHOT: Mapping[str, Twin] = {"engine.snapshot.finished": Twin("overlap", "RPL-5401")}
"""While a snapshot is resumed whose first rows an earlier run copied: tried in `postgres`."""

OF_SLICES: frozenset[str] = frozenset(
    {
        "engine.slice.planned",
        "engine.slice.applied",
        "engine.slice.schema_announced",
        "engine.slice.schema_applied",
        "delta.slice.written",
        "delta.slice.vectors_written",
    }
)
"""While slices of a distributed log are applied, which a SQLite database does not have: tried in
`runtime/engine/slices/test_distributed_stream.py` and in `slices` here, with twins in `runtime/engine/slices/test_slice_recovery.py`
and `plugins/targets/delta/apply/test_slice.py`."""

OF_LATE_TABLES: frozenset[str] = frozenset(
    {"engine.late_table.left", "engine.late_table.applied", "engine.late_table.reached", "engine.late_table.joined"}
)
"""While a table of a distributed log is paused, or read by itself: tried in `runtime/engine/slices/test_late_tables.py` and in `slices` here."""

OF_SLICES_IN_BIGQUERY: frozenset[str] = frozenset({"bigquery.slice.begun", "bigquery.slice.written"})
"""While slices are staged for BigQuery and merged there: tried in `tests/end_to_end/kafka/test_to_bigquery.py`, with twins there and in
`plugins/targets/bigquery/batch/test_slice_apply.py`."""

OF_RENAMES: frozenset[str] = frozenset(
    {"postgres.rename.stored", "engine.rename.saved", "engine.rename.applied", "delta.rename.moved"}
)
"""While a renamed table is renamed at the target: tried in `sqlite/renames` and `postgres/test_renames.py`, inside exchanges of names in
`runtime/engine/stream/test_table_renames.py`."""

OF_DATABASES: frozenset[str] = frozenset({"delta.database.deleted"})
"""While a dropped database is followed, which a SQLite database is not: tried in `plugins/targets/delta/ddl/test_databases.py`."""

OF_REMAINS: frozenset[str] = frozenset({"engine.remains.discarded"})
"""While the target deletes what a killed copy left: tried in `sqlite/test_remains.py`."""

PARTS_OF_REMAINS: frozenset[str] = frozenset({"remains"})
"""The part of the recovery without which it stays there."""

PARTS_OF_RENAMES: frozenset[str] = frozenset({"rename", "renamed"})
"""The parts of the recovery that they need."""

OF_REQUESTS: frozenset[str] = frozenset(
    {"engine.request.begun", "engine.request.carried_out", "engine.request.finished"}
)
"""While a run, or a command by itself, carries out what an operator asks for: tried in `sqlite/commands/test_requests.py`."""

OF_DROP: frozenset[str] = frozenset({"engine.drop.before", "engine.drop.deleted", "engine.drop.forgotten"})
"""While `replicator table drop` deletes a table's copy and forgets the table: tried in `sqlite/commands/tables/test_table_drop.py`."""

OF_COPY_BESIDE: tuple[str, ...] = (
    "engine.request.carried_out",
    "engine.snapshot.planned",
    "delta.snapshot.whole_written",
    "delta.commit.before",
    "delta.snapshot.whole_committed",
    "engine.snapshot.finished",
)
"""While a copy is made beside a table: tried in `sqlite/commands/tables/test_copy_beside.py`."""

OF_PAUSES: frozenset[str] = frozenset(
    {"engine.request.carried_out", "engine.lane.before_write", "engine.lane.after_write"}
    | {"engine.offset.before_save", "engine.offset.after_save"}
)
"""While tables are paused and their changes go to lanes: tried in `sqlite/commands/test_lanes.py`."""

OF_RESUMES: frozenset[str] = frozenset(
    {
        "engine.request.carried_out",
        "engine.lane.before_step",
        "engine.lane.after_step",
        "engine.lane.emptied",
        "engine.lane.ended",
        "engine.lane.tidied",
    }
)
"""While the target gets what is in the lanes: tried in the same place."""

OF_LONG_FAILURES: frozenset[str] = frozenset(
    {"engine.long_failure.before_save", "engine.long_failure.after_save"}
    | {"engine.long_failure.refused", "engine.long_failure.refusal_saved"}
    | {"engine.lane.before_write", "engine.lane.after_write", "engine.offset.before_save", "engine.offset.after_save"}
)
"""While a table fails for long, and its changes go to a lane: tried in `sqlite/failing_tables/test_long_failure.py`."""

PARTS_OF_LANES: frozenset[str] = frozenset({"lane"})
"""The part of the recovery that they need."""

OF_LETTERS: frozenset[str] = frozenset(
    {
        "engine.letters.before_write",
        "engine.letters.written",
        "engine.letters.removed",
        "engine.table.after_apply",
        "engine.offset.before_save",
    }
)
"""While rows with refused values are put aside: tried in `sqlite/commands/test_dead_letters.py`."""

OF_LETTERS_OF_COPIES: frozenset[str] = frozenset(
    {"engine.letters.before_write", "engine.letters.written", "engine.snapshot.chunks_loaded"}
)
"""The same of a first copy."""

OF_OLDER_STATES: frozenset[str] = frozenset({"engine.runs.before_save", "engine.runs.saved"})
"""While a run stores that it may write tables, all of which it has asked: tried in `sqlite/commands/test_dead_letters.py` with a state that is older than the tables."""

OF_HOLDS: frozenset[str] = frozenset(
    {"engine.hold.before_save", "engine.hold.after_save", "engine.request.carried_out", "engine.lane.after_write"}
    | {"engine.lane.before_step", "engine.lane.after_step", "engine.lane.ended", "engine.drop.applied"}
)
"""While changes of structure are held and decided: tried in `sqlite/commands/test_held_changes.py`."""

OF_RESET: frozenset[str] = frozenset({"engine.generation.before", "engine.generation.begun"})
"""While `replicator reset` begins another generation: tried in `sqlite/commands/test_reset.py`."""

OF_RESET_OF_LOGS: frozenset[str] = frozenset({"engine.former_table.begun"})
"""Of a table that a former generation filled, for a source without snapshots: `tests/runtime/engine/control/test_reset_of_logs.py`."""

OF_DELETE: frozenset[str] = frozenset(
    {
        "state.delete.noted",
        "engine.delete.table",
        "engine.delete.tables",
        "sqlite.clean_up.done",
        "engine.delete.source",
        "state.delete.values",
        "state.delete.claims",
    }
)
"""While `replicator delete` removes a replicator: tried in `sqlite/commands/test_delete.py`."""

OF_DELETE_AT_POSTGRES: frozenset[str] = frozenset({"postgres.clean_up.slot", "postgres.clean_up.publication"})
"""The same at Postgres: tried in `end_to_end/postgres/test_delete.py`."""

OF_SLOT: frozenset[str] = frozenset({"postgres.slot.dropped", "postgres.slot.noted", "postgres.slot.created"})
"""While a first start creates its slot at a PostgreSQL: tried in `postgres/test_first_start.py`."""

OF_READER: frozenset[str] = frozenset({"sqlite.reader.stored", "sqlite.reader.noted"})
"""While a first start notes in a SQLite database whose state reads it: tried in `sqlite/readers/test_reader_owner.py`."""

OF_VERSIONS: frozenset[str] = frozenset(
    {
        "sqlite.prune.before_commit",
        "sqlite.prune.committed",
        "sqlite.versions.before_commit",
        "sqlite.versions.committed",
    }
)
"""While former columns of a table are removed from a SQLite database: tried in `sqlite/readers/test_pruned_versions.py`."""

OF_LOST_TOPICS: frozenset[str] = frozenset({"kafka.lost_topics.found", "kafka.lost_topics.kept"})
"""While a table stops whose topic is lost: tried in `kafka/test_lost_topics.py`, with a kill after others were applied beside it."""

OF_PLANS: frozenset[str] = frozenset({"engine.plan.before_save", "engine.plan.after_save"})
"""While a run accepts an approved plan: tried in `sqlite/commands/test_approved_plans.py`, as are the points of what it then does."""

PARTS_OF_PLANS: frozenset[str] = frozenset({"approval"})
"""The part of the recovery that they need."""

OF_ONLY: frozenset[str] = frozenset({"engine.only.copied", "engine.only.released"})
"""While a run with `snapshot.mode` "only" releases the source: tried in `sqlite/commands/test_only.py`."""

OF_STARTS: frozenset[str] = frozenset({"engine.start.prepared", "engine.start.planned"})
"""While a first start begins at `snapshot.from`: tried in `sqlite/commands/test_never.py`."""

OF_REWIND: frozenset[str] = frozenset(
    {
        "engine.rewind.noted",
        "delta.rewind.before",
        "delta.rewind.after",
        "engine.rewind.table",
        "engine.rewind.tables",
        "engine.offset.set_back",
        "engine.rewind.saved",
    }
)
"""While `replicator rewind` goes back: tried in `sqlite/commands/test_rewind.py` and `runtime/engine/rewind/test_rewind.py`."""

OF_REPAIR: frozenset[str] = frozenset({"engine.repair.noted", "delta.repair.before", "delta.repair.after"})
"""While rows that differ are written again: tried in `sqlite/commands/test_repair.py`."""

OF_HEAL: frozenset[str] = frozenset({"engine.heal.begun", "engine.heal.tables", "engine.heal.saved"})
"""While a replicator goes on after a lost log: tried in `sqlite/lost_log/test_heal.py`."""

PARTS_OF_REQUESTS: frozenset[str] = frozenset({"request"})
"""The part of the recovery that they need."""

PARTS_OF_REWINDS: frozenset[str] = frozenset({"rewound"})
"""The part of the recovery that a rewind needs: tried in `tests/plugins/targets/iceberg/commands/test_kills.py`."""

OF_ARCHIVES: frozenset[str] = frozenset(
    {
        "engine.archive.staged",
        "engine.archive.files_written",
        "engine.archive.listed",
        "engine.archive.tidied",
        "engine.archive.copied",
        "engine.table.after_apply",
        "engine.ddl.after_apply",
        "engine.offset.before_save",
    }
)
"""While changes are archived: tried in `sqlite/archive/test_archive_kills.py`."""

OF_ARCHIVED_RENAMES: frozenset[str] = frozenset({"engine.archive.renamed", "engine.rename.applied"})
"""While a rename is archived: tried in `sqlite/archive/test_rename_kills.py`."""

PARTS_OF_ARCHIVES: frozenset[str] = frozenset({"archive"})
"""The part of the recovery that they need."""

OF_ARCHIVED_COPIES: frozenset[str] = frozenset({"engine.archive.copied", "engine.archive.listed"})
"""Those of them that a first copy passes: they are tried there, too."""

OF_SUPERVISION: frozenset[str] = frozenset(
    {
        "service.start.before_row",
        "service.start.row_stored",
        "service.start.process_started",
        "service.stop.before_signal",
        "service.stop.signalled",
        "service.end.seen",
        "service.end.stored",
        "service.delete.removed",
    }
)
"""While a service starts, stops or deletes a run: tried in `runtime/service/supervision/test_killed_service.py`."""

OF_OPERATIONS: frozenset[str] = frozenset(
    {
        "service.action.before",
        "service.action.stored",
        "service.carrier.free",
        "service.carrier.started",
        "service.carrier.ended",
        "service.carry_out.began",
        "service.carry_out.ended",
        "service.job.stored",
        "service.job.running",
        "service.job.spawned",
        "service.job.began",
        "service.job.done",
        "service.job.kept",
        "service.job.ended",
    }
)
"""While a service stores requests and carries out jobs: tried in `runtime/service/operations/test_kills.py`."""

PARTS_FOR_JAVA: frozenset[str] = frozenset({"session", "files"})
"""The parts of the recovery that a killed Java virtual machine needs: tried in `sqlite/test_killed_java.py`."""

ALL = (
    AT_THE_BEGINNING,
    ON_THE_WAY,
    OF_TAKE_OVER,
    OF_RELEASE,
    LATER,
    DELTA_AT_THE_BEGINNING,
    DELTA_AT_ONCE,
    DELTA_ON_THE_WAY,
    DELTA_IN_MAINTENANCE,
    RESUMED_SNAPSHOT,
)
