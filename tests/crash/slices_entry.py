"""A pipeline from a log in files into Delta, in a process of its own: `-m tests.crash.slices_entry PIPELINE NOTES`.

Every process that reads a partition leaves its executor's number in the folder NOTES.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from replicator_sdk.testing.partitioned import FolderLog, PartitionedSource
from tests.runtime.engine.partitioned_shop import Host, run_pipeline

if TYPE_CHECKING:
    from replicator_sdk import DeltaSourceContext, DistributedLog, EventReaderDefinition, TableId, TableSchema
    from replicator_sdk.distributed_log import LogItem, LogPartition, LogPartitionReader


@dataclass(frozen=True)
class NotingReader:
    """Reads as another does, and notes where."""

    read: LogPartitionReader
    notes: str

    def __call__(self, partition: LogPartition, tables: Mapping[TableId, TableSchema]) -> Iterator[LogItem]:
        executor = (
            Path(f"/proc/{os.getppid()}/stat").read_text().rsplit(")", 1)[1].split()[1]
        )  # the worker's daemon's parent
        with (Path(self.notes) / executor).open("a") as note:
            note.write(f"{partition.name}\n")
        yield from self.read(partition, tables)


class NotingSource(PartitionedSource):
    """A partitioned source whose readers note where they are."""

    def create_distributed_log(
        self, definition: EventReaderDefinition, context: DeltaSourceContext
    ) -> DistributedLog | None:
        log = super().create_distributed_log(definition, context)
        assert isinstance(log, FolderLog)
        log.read = NotingReader(log.read, sys.argv[2])
        return log


def main() -> None:
    """Run until current."""
    from replicator_target_delta import DeltaLakeTarget

    Path(sys.argv[2]).mkdir(exist_ok=True)
    host = Host(DeltaLakeTarget, NotingSource)
    result = run_pipeline(json.loads(Path(sys.argv[1]).read_text()), host)
    print(json.dumps({"offset": result.offset, "pid": os.getpid()}))  # noqa: T201 - for the test


if __name__ == "__main__":
    from tests.crash import slices_entry

    slices_entry.main()  # under its own name, so that executors can import what it sends them
