"""Settings of mode `merge-flush`, by the names of docs/seeds.md#000-bigquery, and which exclude each other."""

from __future__ import annotations

import re
from typing import Annotated, Final

from pydantic import Field

from replicator_sdk.config import PluginConfig

_COLUMN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,299}")
_OFF: Final = -1


class MergeFlushSettings(PluginConfig):
    """The settings that only mode `merge-flush` reads.

    Attributes:
        upsert_enabled: Rows are merged by their key: updated where they exist, else inserted.
        delete_enabled: Rows that the source deletes are deleted. With neither this nor `upsertEnabled` every row
            written at the source is appended, and deletes are left out.
        kafka_key_field_name: The column that holds each row's key as a STRUCT; needed to upsert or delete.
        intermediate_table_suffix: What follows the table's name in the names of intermediate tables.
        merge_interval_ms: The longest time between two merges of a table, in milliseconds; -1 for no limit.
        merge_records_threshold: How many streamed rows of a table make it merge at once; -1 for no limit.
        use_storage_write_api: Stream by the Storage Write API; else by `insertAll`, which is slower and costs more.
        use_default_stream: With `useStorageWriteApi`, stream into each table's default stream, which needs no streams
            of our own but may write a row twice; merges take it once.
        timestamp_partition_field_name: The DATE, TIMESTAMP or DATETIME column, at the source, by which new tables are
            partitioned; by time of arrival when empty.
        big_query_partition_decorator: Put each inserted row in the partition of the time it was read, not of the merge.
        use_message_time_date_partitioning: With `bigQueryPartitionDecorator`, take the time the source committed it.
    """

    upsert_enabled: bool = False
    delete_enabled: bool = False
    kafka_key_field_name: str = ""
    intermediate_table_suffix: Annotated[
        str,
        Field(
            pattern=r"^[A-Za-z0-9_]{1,64}$",
            json_schema_extra={"rule": "must hold only letters, digits and _, 64 at most"},
        ),
    ] = "_tmp"
    merge_interval_ms: Annotated[int, Field(ge=_OFF)] = 60000
    merge_records_threshold: Annotated[int, Field(ge=_OFF)] = _OFF
    use_storage_write_api: bool = True
    use_default_stream: bool = False
    timestamp_partition_field_name: str = ""
    big_query_partition_decorator: bool = False
    use_message_time_date_partitioning: bool = False

    @property
    def merges(self) -> bool:
        """Whether changes are merged, not appended."""
        return self.upsert_enabled or self.delete_enabled

    def refuse_in_other_modes(self) -> None:
        """Refuse settings that other modes would ignore.

        Raises:
            ValueError: When one is set.
        """
        for name, setting in MergeFlushSettings.model_fields.items():
            if getattr(self, name) != setting.default:
                raise ValueError(f"{setting.alias} is for mode merge-flush only")

    def check(self) -> None:
        """Refuse settings that exclude each other.

        Raises:
            ValueError: With the settings concerned.
        """
        if self.merges and not self.kafka_key_field_name:
            raise ValueError("upsertEnabled and deleteEnabled need kafkaKeyFieldName, the column of the key")
        if self.kafka_key_field_name and not _COLUMN.fullmatch(self.kafka_key_field_name):
            raise ValueError("kafkaKeyFieldName must be letters, digits and underscores, beginning with no digit")
        if 0 in {self.merge_interval_ms, self.merge_records_threshold}:
            raise ValueError("mergeIntervalMs and mergeRecordsThreshold are 1 or more, or -1 for no limit")
        if self.merges and self.merge_interval_ms == self.merge_records_threshold == _OFF:
            raise ValueError("mergeIntervalMs and mergeRecordsThreshold are both -1: nothing would ever be merged")
        if self.timestamp_partition_field_name and self.big_query_partition_decorator:
            raise ValueError("timestampPartitionFieldName and bigQueryPartitionDecorator exclude each other")
        if self.use_message_time_date_partitioning and not self.big_query_partition_decorator:
            raise ValueError("useMessageTimeDatePartitioning needs bigQueryPartitionDecorator")
        if self.big_query_partition_decorator and not self.merges:
            raise ValueError("bigQueryPartitionDecorator needs upsertEnabled or deleteEnabled")
        if self.use_default_stream and not self.use_storage_write_api:
            raise ValueError("useDefaultStream is for the Storage Write API: it needs useStorageWriteApi")
        if self.use_default_stream and not self.merges:
            raise ValueError(
                "without upsertEnabled and deleteEnabled the default stream would double rows: leave useDefaultStream out"
            )
        if not self.use_storage_write_api and not self.merges:
            raise ValueError(
                "without upsertEnabled and deleteEnabled insertAll would double rows: use the Storage Write API"
            )
