"""Records of one partition as columns: returned by fetches, decoded by formats."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from replicator_sdk.batch import Int64s


@dataclass(frozen=True, slots=True)
class Records:
    """Records of one partition, in ascending order of their offsets. Picklable; all columns have one length.

    Attributes:
        topic: The topic's name.
        partition: The partition's number.
        offset: Kafka's offsets; gaps are usual (compaction, transactions).
        timestamp: The records' timestamps in milliseconds since 1970 UTC; -1 where a record has none.
        key: The keys' bytes; null for a record without a key. A BinaryArray or LargeBinaryArray.
        value: The values' bytes; null for a tombstone. A BinaryArray or LargeBinaryArray.
        headers: The records' headers in the form of Kafka's protocol (their count first; bytes after the last one are to be
            ignored), or null; None when no record has any. `record_batches.record_headers` reads them.
    """

    topic: str
    partition: int
    offset: Int64s
    timestamp: Int64s
    key: pa.BinaryArray
    value: pa.BinaryArray
    headers: pa.BinaryArray | None = None

    def __len__(self) -> int:
        return len(self.offset)

    def position(self, index: int) -> str:
        """The position of one record, as Kafka's tools write it: `topic-partition@offset`."""
        return f"{self.topic}-{self.partition}@{self.offset[index]}"

    def slice(self, start: int, stop: int) -> Records:
        """The records from index `start` up to `stop`, without copying."""
        cut = slice(start, stop)
        columns = (self.offset[cut], self.timestamp[cut], self.key[cut], self.value[cut])
        headers = None if self.headers is None else self.headers[cut]
        return Records(self.topic, self.partition, *columns, headers)
