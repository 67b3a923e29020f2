"""A process that applies a history to a target and is killed by its environment: `python -m … JOB`.

The job is a pickled `Job`. The process goes on after the last flush that it noted as durable, as the runtime goes on from its saved
offset. `REPLICATOR_FAILPOINTS` kills it at a failpoint, `REPLICATOR_KILL_AT_LINE=n` before the n-th line of the plugin.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from replicator_sdk.config import PluginConfig
from replicator_sdk.offset import Position
from replicator_sdk.schema import TableId
from replicator_sdk.target import DeltaTarget, EventConsumer, SnapshotLoader
from replicator_sdk.testing.contexts import TestTargetContext
from replicator_sdk.testing.histories.history import History
from replicator_sdk.testing.in_memory.offset import MemoryOffset
from replicator_sdk.testing.kills.child import LineCounter, main_of_child
from replicator_sdk.testing.target_script import ScriptBuilder, apply, load


@dataclass(frozen=True)
class Job:
    """What one process does.

    Attributes:
        target: The plugin's class.
        config: Its settings.
        history: What happens.
        ids: The history's tables → their names at the target.
        until: How many transactions of the history have happened by now.
        epoch: The run's.
        notes: A file that outlives the process: the number of flushes that are durable.
    """

    target: type[DeltaTarget]
    config: PluginConfig
    history: History
    ids: Mapping[str, TableId]
    until: int
    epoch: int
    notes: Path

    @property
    def durable(self) -> int:
        """How many flushes are durable; the first is the snapshot, or the creation of the tables."""
        return int(self.notes.read_text()) if self.notes.exists() else 0

    def note(self, count: int) -> None:
        """That so many flushes are durable."""
        new = self.notes.with_suffix(".new")
        new.write_text(str(count))
        new.replace(self.notes)


def run(job: object, counter: LineCounter) -> None:
    """Apply what is left."""
    assert isinstance(job, Job)
    context = TestTargetContext(MemoryOffset.from_fields, epoch=job.epoch)
    consumer = job.target(job.config).create_consumer(context)
    with counter.watching(type(consumer)):
        consumer.start()
        try:
            _apply(job, consumer)
        finally:
            consumer.stop()


def _apply(job: Job, consumer: EventConsumer) -> None:
    builder = ScriptBuilder(job.history, job.ids, epoch=job.epoch)
    first = builder.flush([])
    if job.durable == 0:
        if isinstance(consumer, SnapshotLoader):
            for table in first.tables.values():
                load(consumer, table, "plan", Position(MemoryOffset(0)))
        else:
            for event in builder.create():
                consumer.apply_ddl(event)
        job.note(1)
    for number, transaction in enumerate(job.history.transactions[: job.until], 1):
        flush = builder.flush([transaction])
        if job.durable <= number:
            apply(consumer, flush)
            job.note(number + 1)


if __name__ == "__main__":
    # The job was pickled with the classes of this module, not with those of `__main__`.
    from replicator_sdk.testing.kills import target_process  # noqa: PLW0406

    main_of_child(target_process.run)
