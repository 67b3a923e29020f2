"""Deletes a replicator: what it left at the source, its state, and on request its tables at the target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from replicator_runtime.engine.run_state.open_run import check_user, directory_of, is_known, keeping_lease, open_run
from replicator_runtime.engine.run_state.plugin_contexts import TargetContext, stored_by_source
from replicator_runtime.engine.tables.table_store import TableStore
from replicator_runtime.setting_edits import edited_settings
from replicator_runtime.stored_forms import SETTINGS
from replicator_sdk.discovery.assessment import Severity
from replicator_sdk.errors import FencedError, NeedsUserError, ReplicatorError, RetryableError
from replicator_sdk.failpoint import failpoint, register
from replicator_state import ArchiveFolder, check_known_identity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from replicator_runtime.config import Pipeline
    from replicator_runtime.engine.run_state.run import Run
    from replicator_runtime.engine.tables.rename_step import RenameStep
    from replicator_sdk import Leftover, SourceCleanUp, StoredState, TableId

register("engine.delete.table", "engine.delete.tables", "engine.delete.source")
log = structlog.get_logger()
_NAMED = 50


@dataclass(frozen=True, slots=True)
class Deletable:
    """What a deletion concerns.

    Attributes:
        place: The folder of the state.
        tables: The tables that the state knows of, in order.
        dropped: Tables that the source dropped or renamed earlier, or that left the pipeline then: the target may have kept them.
        leftovers: What is at the source; empty when it is kept, or was removed before.
        source_says: Whether the source's plugin says what it leaves.
        source_is_done: Whether an earlier deletion, which was cut off, had done all but the state.
    """

    place: str
    tables: tuple[TableId, ...]
    dropped: tuple[TableId, ...]
    leftovers: tuple[Leftover, ...]
    source_says: bool
    source_is_done: bool


@dataclass(frozen=True, slots=True)
class Outcome:
    """For people, a line for each part.

    Attributes:
        deleted: What is deleted, or is going to be.
        left: What stays, and why.
    """

    deleted: tuple[str, ...]
    left: tuple[str, ...]


def survey(pipeline: Pipeline, *, target_tables: bool, keep_source: bool) -> Deletable:
    """What `delete` has to do; asks the source unless it is kept, and changes nothing.

    Raises:
        NeedsUserError: RPL-1242 when nothing is stored of the pipeline; RPL-1245 when its tables are to be deleted, and are
            perhaps elsewhere; RPL-7106 for root where the state is another user's.
        ReplicatorError: RPL-1243 or RPL-1244, with what stays at the source, when that cannot be asked; RPL-7140 when it is another source; as the
            state's store fails.
    """
    check_user(pipeline)
    directory = directory_of(pipeline)
    clean_up = _clean_up(pipeline)
    if not is_known(pipeline):
        raise NeedsUserError(
            f"nothing is stored of the replicator at {directory.home}: it never ran there, was deleted, or its state was lost",
            code="RPL-1242",
            hint="give the pipeline's file as it was run, with the same `name`, `namespace` and `offsetBasePath`; after a lost state remove what"
            f" is at the source by hand: {_by_hand(clean_up)}",
        )
    note = directory.deletion().note()
    is_done = note is not None and note.only_state
    if target_tables and not is_done:
        _refuse_edited_target(pipeline)
    leftovers = () if keep_source or is_done else _found(pipeline, clean_up)
    tables, dropped = ((), ()) if is_done else _tables(pipeline)
    return Deletable(directory.home, tables, dropped, leftovers, clean_up is not None, is_done)


def expected(found: Deletable, *, target_tables: bool, keep_source: bool, pipeline: Pipeline) -> Outcome:
    """What `delete` is going to do, as far as that is known before."""
    deleted = [item.what for item in found.leftovers if not item.stays]
    if target_tables:
        deleted += [f"the table {table} at the target, if this replicator wrote it" for table in found.tables]
    deleted.append(f"its state at {found.place}, with its offsets and the history of requests")
    left = _left_at_the_source(found, pipeline, keep_source=keep_source)
    if not target_tables and found.tables:
        left.append(f"the tables at the target: {', '.join(map(str, found.tables))}")
    return Outcome(tuple(deleted), (*left, *_dropped(found), *_archived(pipeline)))


def _dropped(found: Deletable) -> list[str]:
    names = list(map(str, found.dropped))
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    named = f"{', '.join(names[:_NAMED])}{more}"
    return [f"tables that the source dropped or renamed earlier, where the target kept them: {named}"] * bool(names)


def delete(pipeline: Pipeline, *, target_tables: bool, keep_source: bool) -> Outcome:
    """Delete it. From the first step on no run begins; after a kill another call does the rest.

    First a note that it is being deleted, then tables at the target, then what is at the source, then the state: so what names the
    things outside the state is the last to go.

    Args:
        pipeline: Which.
        target_tables: Whether to delete the tables at the target that this replicator wrote.
        keep_source: Whether to leave the source alone.

    Raises:
        NeedsUserError: As `survey`; RPL-7130 when a run goes on.
        FencedError: When a newer run took over, or has written a table at the target.
        ReplicatorError: As source, target or the state's store fail; the rest is left for another call.
    """
    found = survey(pipeline, target_tables=target_tables, keep_source=keep_source)
    directory = directory_of(pipeline)
    with open_run(pipeline, deleting=True) as run:
        lease = run.lease
        with keeping_lease(run):
            directory = directory_of(pipeline)
            directory.deletion().begin(lease)
            deleted, left = _delete_tables(run, found.tables) if target_tables else ([], [])
            failpoint("engine.delete.tables")
            if not (keep_source or found.source_is_done):
                _remove(pipeline)
            failpoint("engine.delete.source")
            directory.delete_values(lease)
        directory.finish_deletion(lease)
    plan = expected(found, target_tables=False, keep_source=keep_source, pipeline=pipeline)
    log.warning("replicator.deleted", name=pipeline.config.name, namespace=pipeline.config.namespace)
    if target_tables:
        kept = _left_at_the_source(found, pipeline, keep_source=keep_source)
        return Outcome((*deleted, *plan.deleted), (*left, *kept, *_dropped(found), *_archived(pipeline)))
    return plan


def _archived(pipeline: Pipeline) -> list[str]:
    archive = pipeline.config.archive
    if archive is None:
        return []
    return [f"the archive at {ArchiveFolder(archive.path, 0).place}, with the values of all rows: delete its folder"]


def _tables(pipeline: Pipeline) -> tuple[tuple[TableId, ...], tuple[TableId, ...]]:
    """The tables of all generations, since one that was reset has none yet; under all names that they may have at the target.

    The second are those that are replicated no more.
    """
    directory = directory_of(pipeline)
    found: set[TableId] = set()
    left: dict[TableId, None] = {}
    for number in directory.generations():
        states = directory.of_generation(number).states()
        store = TableStore(states.scoped("runtime"), pipeline.source.offset_type.from_fields)
        store.load()
        found |= store.records.keys() | {step.former for step in store.renames} | set(map(_renamed, store.renames))
        found |= {remains.table for remains in store.remains.noted() if not remains.snapshot_id}
        left |= store.left
    return tuple(sorted(found, key=str)), tuple(sorted(left.keys() - found, key=str))


def _renamed(step: RenameStep) -> TableId:
    return step.schema.table


def _refuse_edited_target(pipeline: Pipeline) -> None:
    """Refuse a target that was edited since the last run: what is not found there is perhaps where it was before.

    Raises:
        NeedsUserError: RPL-1245, unless every edit is one that moves no tables.
    """
    directory = directory_of(pipeline)
    stores = (directory.of_generation(n).states().scoped("runtime") for n in reversed(directory.generations()))
    ran = next((store for store in stores if store.get(SETTINGS)), None)  # one that was reset may have none yet
    edits = [] if ran is None else edited_settings(pipeline, ran)
    moved = next((one for one in edits if one.end == "target" and one.finding.severity is not Severity.INFO), None)
    if moved is not None:
        raise NeedsUserError(
            f"the tables may be elsewhere: {moved.finding.description}; nothing was deleted",
            code="RPL-1245",
            hint="give the pipeline's file as it was run last; or delete the rest without --target-tables",
        )


def _delete_tables(run: Run, tables: Sequence[TableId]) -> tuple[list[str], list[str]]:
    """Delete each that is this replicator's; what was deleted, and what stays."""
    deleted: list[str] = []
    left: list[str] = []
    if not tables:
        return deleted, left
    consumer = run.pipeline.target.create_consumer(TargetContext(run))
    try:
        consumer.start()
        for table in tables:
            run.lease.check()
            try:
                why = consumer.delete_table(table)
            except (FencedError, RetryableError):
                raise
            except ReplicatorError as error:
                why = f"{error.code}: {error.message}"
            if why:
                left.append(f"the table {table} at the target: {why}")
            else:
                deleted.append(f"the table {table} at the target")
            failpoint("engine.delete.table")
    finally:
        consumer.stop()
        run.spark.stop()
    return deleted, left


def _clean_up(pipeline: Pipeline) -> SourceCleanUp | None:
    config = pipeline.config
    return pipeline.source.create_clean_up(namespace=config.namespace, name=config.name, stored=_stored(pipeline))


def _stored(pipeline: Pipeline) -> list[StoredState]:
    directory = directory_of(pipeline)
    return [stored_by_source(pipeline, directory.of_generation(n)) for n in reversed(directory.generations())]


def _found(pipeline: Pipeline, clean_up: SourceCleanUp | None) -> tuple[Leftover, ...]:
    if clean_up is None:
        return ()
    try:
        identity = clean_up.identity()
        if identity and (directory := directory_of(pipeline)).generations():
            check_known_identity(directory.states().scoped("runtime"), identity)
        return tuple(clean_up.find())
    except RetryableError as error:
        raise RetryableError(
            f"the source cannot be asked what is to be removed there ({error.code}: {error.message}); nothing was deleted",
            code="RPL-1243",
            hint="give the command again when it answers; or delete the rest with --keep-source, and remove by hand what stays at the source:"
            f" {_by_hand(clean_up)}",
        ) from error
    except NeedsUserError as error:
        raise NeedsUserError(
            f"the source refuses to say what is to be removed there ({error.code}: {error.message}); nothing was deleted",
            code="RPL-1244",
            hint="repair that; or delete the rest with --keep-source, and remove by hand what stays at the source:"
            f" {_by_hand(clean_up)}",
        ) from error


def release_source(pipeline: Pipeline) -> None:
    """Remove what the replicator left at the source; nothing where the source does not say what that is.

    Raises:
        NeedsUserError: RPL-7140 when it is another source; when it refuses.
        RetryableError: When it cannot be reached, or is still in use.
    """
    clean_up = _clean_up(pipeline)
    if clean_up is None:
        log.warning("source.not_released", why=f"the source plugin {pipeline.source.name} does not say what it leaves")
        return
    if identity := clean_up.identity():
        check_known_identity(directory_of(pipeline).states().scoped("runtime"), identity)
    clean_up.remove()


def _remove(pipeline: Pipeline) -> None:
    clean_up = _clean_up(pipeline)
    if clean_up is not None:
        clean_up.remove()


def _left_at_the_source(found: Deletable, pipeline: Pipeline, *, keep_source: bool) -> list[str]:
    if found.source_is_done:
        return []
    if not found.source_says:
        return [f"what the source plugin {pipeline.source.name} left at the source: it does not say what that is"]
    clean_up = _clean_up(pipeline)
    if keep_source and clean_up is not None:
        return [_described(item, "--keep-source") for item in clean_up.expected()]
    return [_described(item, item.stays) for item in found.leftovers if item.stays]


def _described(item: Leftover, why: str) -> str:
    return f"{item.what}: {why}" + (f"; remove it by hand: {item.by_hand}" if item.by_hand else "")


def _by_hand(clean_up: SourceCleanUp | None) -> str:
    steps = [item.by_hand for item in clean_up.expected() if item.by_hand] if clean_up is not None else []
    return " ".join(steps) or "as the source's page says"
