"""Takes a pipeline's lease and gives the run that has it."""

from __future__ import annotations

import threading
import uuid
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from typing import TYPE_CHECKING

import structlog

from replicator_runtime.engine.run_state.error_policy import fit_next_step
from replicator_runtime.engine.run_state.progress import Progress
from replicator_runtime.engine.run_state.run import Run
from replicator_runtime.observability.kept_log import keeping_log
from replicator_runtime.observability.lineage import Lineage
from replicator_runtime.observability.logs import set_run
from replicator_runtime.observability.metrics import MetricsRegistry
from replicator_runtime.stored_forms import check_all
from replicator_sdk.errors import FencedError, NeedsUserError, ReplicatorError
from replicator_sdk.timeline import step
from replicator_state import ReplicatorDirectory, Retention

if TYPE_CHECKING:
    from collections.abc import Iterator

    from replicator_runtime.config import Pipeline
    from replicator_runtime.engine.run_state.spark_handle import SparkHandle
    from replicator_state import Lease

log = structlog.get_logger()


def has_run(pipeline: Pipeline) -> bool:
    """Whether a run of the pipeline has stored anything; reads only."""
    return bool(_directory(pipeline).generations())


def is_known(pipeline: Pipeline) -> bool:
    """Whether anything is stored of the pipeline, also when a deletion of it was cut off; reads only."""
    directory = _directory(pipeline)
    return bool(directory.generations()) or directory.deletion().note() is not None


def directory_of(pipeline: Pipeline) -> ReplicatorDirectory:
    """Where the pipeline's state is, in its newest generation."""
    return _directory(pipeline)


def check_user(pipeline: Pipeline) -> None:
    """See `ReplicatorDirectory.check_user`."""
    _directory(pipeline).check_user()


@contextmanager
def open_run(
    pipeline: Pipeline,
    stop: threading.Event | None = None,
    progress: Progress | None = None,
    *,
    wait_seconds: float = 0.0,
    deleting: bool = False,
    spark: SparkHandle | None = None,
) -> Iterator[Run]:
    """A run of `pipeline`, which has the lease until the block ends; its log lines name it.

    Args:
        pipeline: What to run.
        stop: Set it to stop the run.
        progress: Where to report.
        wait_seconds: How long to wait for another holder of the lease to end.
        deleting: Whether the pipeline is to be deleted.
        spark: The run's Spark session, which the caller has begun; one that starts when it is asked for when left out.

    Raises:
        ReplicatorError: RPL-7130 when another run has the lease; RPL-1240 when the pipeline is being deleted; RPL-7161 when a later release stored the state in forms that
            this one does not know.
    """
    run_id = uuid.uuid4().hex[:12]
    set_run(pipeline.config.name, run_id)
    with step("state.open"):
        directory, lease = _acquired(pipeline, run_id, wait_seconds, deleting=deleting)
    log_is_kept = keeping_log(directory.logs(lease), pipeline.config.logs, run_id)
    try:
        with nullcontext() if deleting else log_is_kept:
            run = Run(
                pipeline=pipeline,
                run_id=run_id,
                generation=directory.generation,
                lease=lease,
                offsets=directory.offsets(lease),
                store=directory.states(lease).scoped("runtime"),
                requests=directory.requests(),
                lanes=directory.lanes(lease),
                letter_files=directory.dead_letters(lease),
                archive_stage=directory.archive_stage(lease),
                former=directory.former,
                stop=stop or threading.Event(),
                progress=progress or Progress(),
                metrics=MetricsRegistry(pipeline.target_stage),
                lineage=Lineage(),
                spark_begun=spark,
            )
            try:
                yield run
            except ReplicatorError as error:
                fit_next_step(error, pipeline.source)
                raise
    finally:
        lease.release()
        set_run()


def begin_generation(pipeline: Pipeline, run: Run, *, state_was_lost: bool = False) -> int:
    """Begin another generation of the pipeline, whose lease `run` has; see `ReplicatorDirectory.begin_generation`."""
    return _directory(pipeline).begin_generation(run.lease, state_was_lost=state_was_lost)


def delete_former_rows(run: Run) -> None:
    """Delete the lanes and dead letters of former generations, or say why not: it is tried again by the next run.

    Raises:
        FencedError: When a newer run took over.
    """
    try:
        _directory(run.pipeline).of_generation(run.generation).delete_former_rows(run.lease)
    except FencedError:
        raise
    except ReplicatorError as error:
        log.warning("generation.not_tidied", error=str(error))


def _acquired(
    pipeline: Pipeline, run_id: str, wait_seconds: float, *, deleting: bool
) -> tuple[ReplicatorDirectory, Lease]:
    """The newest generation, and its lease; another may begin, or a deletion, until the lease is had."""
    while True:
        directory = _directory(pipeline)
        if not deleting:
            _refuse_deleted(directory)
        if directory.generations():
            check_all(directory.states().scoped("runtime"))  # before this run writes anything, its lease too
        lease = directory.acquire(run_id, wait_seconds=wait_seconds)
        try:
            if not deleting:
                _refuse_deleted(directory)
            if directory.is_newest:
                return directory, lease
        except BaseException:
            lease.release()
            raise
        lease.release()


def _refuse_deleted(directory: ReplicatorDirectory) -> None:
    note = directory.deletion().note()
    if note is None:
        return
    raise NeedsUserError(
        f"the replicator is being deleted since {note.at.isoformat(timespec='seconds')}, by {note.by}; a part of it may be gone",
        code="RPL-1240",
        hint="let that command end, or give `replicator delete PIPELINE` again, which does the rest; then start again: every table is copied",
    )


@contextmanager
def keeping_lease(run: Run) -> Iterator[None]:
    """Renew the lease within the block; a run that loses it is stopped.

    Raises:
        FencedError: At the block's end, when a newer run has taken the lease over.
    """
    fenced: list[FencedError] = []

    def lost(error: FencedError) -> None:
        fenced.append(error)
        run.stop.set()

    with run.lease.renewing(lost):
        yield
    if fenced:
        raise fenced[0]


def _directory(pipeline: Pipeline) -> ReplicatorDirectory:
    config = pipeline.config
    retention = Retention(count=config.offsets.keep_count, age=timedelta(days=config.offsets.keep_days))
    wait = config.retries.max_duration_seconds
    return ReplicatorDirectory(
        config.offset_base_path,
        config.namespace,
        config.name,
        retention=retention,
        retry_seconds=60.0 if wait is None else min(60.0, wait),
    )
