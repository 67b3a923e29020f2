"""Settings of the source; the pipeline JSON spells them in camelCase."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import Field, field_validator, model_validator

from replicator_sdk.config import OutOfRange, PluginConfig, Secret, SettingEdit
from replicator_sdk.discovery.assessment import Severity
from replicator_source_kafka.client_settings import SECRETS, check_settings, own_number, plain
from replicator_source_kafka.record_settings import Operations, Route
from replicator_source_kafka.types.type_hints import parse_hint

FormatName = Literal[
    "debezium-json",
    "debezium-avro",
    "debezium-protobuf",
    "flattened-json",
    "flattened-avro",
    "upsert-json",
    "upsert-avro",
]
StartFrom = Literal["earliest", "latest"] | datetime | dict[str, dict[int, Annotated[int, Field(ge=0)]]]

_REGISTRY_FORMATS = ("debezium-avro", "debezium-protobuf", "flattened-avro", "upsert-avro")
_SELF_NAMING_FORMATS = ("debezium-json", "debezium-avro", "debezium-protobuf")


_TOPICS: Final = SettingEdit(
    "topics that are added are read from their earliest offset; what topics that are left out hold is not read, and their tables stay as they are"
)
_RECORDS: Final = SettingEdit(
    "records that are read from the next run on are decoded by it, also those that an earlier run could not apply; a table whose columns"
    " differ from then on is altered, or stops",
    "edit it only where records of the other form begin, or where no earlier record was decoded wrongly",
    Severity.WARNING,
)


class KafkaConfig(PluginConfig):
    """Settings of the `kafka` source. Only committed records are read (`read_committed`), always.

    Attributes:
        bootstrap_servers: `host:port`, several with commas between them.
        topics: The names of the topics to read; either this or `topic_pattern`.
        topic_pattern: A regular expression that a topic's whole name must match; new topics that match are read without
            a restart.
        format: The format of the records.
        schema_registry_url: Where the schemas of Avro and Protobuf records are.
        start_from: Where the first start begins: `earliest`, `latest`, a point in time (ISO 8601 with a zone: the first
            record of each partition that is not older), or offsets (`{"topic": {"0": 123}}`; partitions left out begin
            at their earliest). Topics that are added later begin at their earliest offset.
        kafka: Settings of the Kafka client under the names that Kafka gives them, such as `security.protocol`; the page of the
            source lists those that are allowed.
        on_poison: What to do with a record that cannot be read: `stop`, or `quarantine` it in the table
            `_replicator.kafka_quarantine`.
        on_new_partitions: What to do when a topic has more partitions than before: `fail`, since a key may have moved
            to another partition and its changes may be read out of order; or `read` them from their beginning.
        on_missed_deletes: What to do when removals of rows may have been compacted away before they were read (`delete.retention.ms`):
            `fail`, or `warn`, for tables whose rows are never removed.
        column_types: Table (`schema.table`) → column → standard type, for records that do not contain types.
        unavailable_value: What Debezium writes for a value it did not receive (`unavailable.value.placeholder`).
        table_from_topic: A regular expression on the topic's name with the groups `table` and, optionally, `schema`
            and `database`, for records that do not name their table.
        table_field: The field of a record that names its table, for topics with several tables; with `routes`, the field
            whose value they are about.
        routes: Rules that say which tables a record is for, where neither topic nor field name one: each table of which a rule takes it.
            A record that no rule takes is one that cannot be read.
        operation_field: The field of a record that says what it does, in the formats `upsert-…`. Without it each record with a value is
            an upsert. A record without a value deletes its key in either case.
        operations: What the values of `operationField` mean; another value is one that cannot be read.
        out_of_range: What to do with values the standard types cannot hold; the target's setting when left out.
        metadata_interval_seconds: The interval of checks for new topics and partitions.
        distributed: Whether Spark's executors read the partitions, if the target supports it. Otherwise one reader reads
            all partitions, which keeps the order between partitions of a window and supports TRUNCATE.
        transaction_topic: Debezium's topic of transaction metadata (`provide.transaction.metadata`), read in addition:
            a transaction of the source then arrives whole, in one commit of the log. Needs `distributed: false`.
        transaction_wait_seconds: How long the records of a transaction wait for the rest of it. After that they are
            applied without it, and counted in `source.transactions_cut`.
    """

    edits: ClassVar[Mapping[str, SettingEdit]] = {
        "bootstrapServers": SettingEdit(
            "the saved offset is looked for there: another cluster than before is refused (RPL-7140)",
            "nothing, if it is the same cluster under another name; else put it back",
            Severity.WARNING,
            checked_at_start=True,
        ),
        "topics": _TOPICS,
        "topicPattern": _TOPICS,
        "startFrom": SettingEdit("nothing: it counts for the first start only"),
        "format": _RECORDS,
        "tableFromTopic": _RECORDS,
        "tableField": _RECORDS,
        "routes": _RECORDS,
        "operationField": _RECORDS,
        "operations": _RECORDS,
        "columnTypes": _RECORDS,
        "onPoison": SettingEdit("records that are read from the next run on follow it"),
        "outOfRange": SettingEdit("values that are read from the next run on follow it; the others stay as they are"),
    }

    bootstrap_servers: Annotated[str, Field(min_length=1)]
    topics: tuple[Annotated[str, Field(min_length=1, max_length=249)], ...] = ()
    topic_pattern: str | None = None
    format: FormatName = "debezium-json"
    schema_registry_url: str | None = None
    start_from: StartFrom = "earliest"
    kafka: Mapping[str, str | int | bool | Secret] = Field(default_factory=dict)
    on_poison: Literal["stop", "quarantine"] = "stop"
    on_new_partitions: Literal["fail", "read"] = "fail"
    on_missed_deletes: Literal["fail", "warn"] = "fail"
    column_types: Mapping[str, Mapping[str, str]] = Field(default_factory=dict)
    unavailable_value: str = "__debezium_unavailable_value"
    table_from_topic: str | None = None
    table_field: str | None = None
    routes: tuple[Route, ...] = ()
    operation_field: Annotated[str, Field(min_length=1)] | None = None
    operations: Operations = Operations()
    out_of_range: OutOfRange | None = None
    metadata_interval_seconds: float = Field(default=10.0, gt=0, le=3600)
    distributed: bool = True
    transaction_topic: Annotated[str, Field(min_length=1, max_length=249)] | None = None
    transaction_wait_seconds: float = Field(default=60.0, gt=0, le=86400)

    @field_validator("kafka", mode="before")
    @classmethod
    def _hide_secrets(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        return {k: Secret(v) if k in SECRETS and isinstance(v, str) else v for k, v in value.items()}

    @field_validator("kafka")
    @classmethod
    def _only_allowed(cls, value: Mapping[str, Any]) -> Mapping[str, Any]:
        check_settings(value)
        return value

    @field_validator("topic_pattern", "table_from_topic")
    @classmethod
    def _compiles(cls, value: str | None) -> str | None:
        if value is not None:
            try:
                re.compile(value)
            except re.error as error:
                raise ValueError(f"not a regular expression: {error}") from None
        return value

    @field_validator("column_types")
    @classmethod
    def _known_types(cls, value: Mapping[str, Mapping[str, str]]) -> Mapping[str, Mapping[str, str]]:
        for columns in value.values():
            for kind in columns.values():
                parse_hint(kind)
        return value

    @field_validator("start_from")
    @classmethod
    def _has_a_zone(cls, value: StartFrom) -> StartFrom:
        if isinstance(value, datetime) and value.tzinfo is None:
            raise ValueError("startFrom needs a zone, as in 2026-01-31T00:00:00Z")
        return value

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        """Check settings that exclude or need each other."""
        if bool(self.topics) == (self.topic_pattern is not None):
            raise ValueError("give either topics or topicPattern")
        needs_registry = self.format in _REGISTRY_FORMATS
        if needs_registry and not self.schema_registry_url:
            raise ValueError(f"the format {self.format} needs schemaRegistryUrl")
        if self.schema_registry_url and not needs_registry:
            raise ValueError(f"the format {self.format} has no use for schemaRegistryUrl")
        if self.format in _SELF_NAMING_FORMATS and (self.table_field or self.table_from_topic):
            raise ValueError(
                f"records of the format {self.format} name their table: leave tableField, tableFromTopic and routes out,"
                " or choose the format that the records have"
            )
        if self.table_field and self.table_from_topic:
            raise ValueError("give either tableField or tableFromTopic")
        if self.table_from_topic and "table" not in re.compile(self.table_from_topic).groupindex:
            raise ValueError("tableFromTopic needs a group named table: (?P<table>…)")
        if isinstance(self.start_from, dict) and self.topics and (odd := set(self.start_from) - set(self.named_topics)):
            raise ValueError(f"startFrom names topics that are not read: {', '.join(sorted(odd))}")
        return self

    @model_validator(mode="after")
    def _records_say_enough(self) -> Self:
        """Check the settings of records that have no envelope."""
        if self.routes and self.format in _SELF_NAMING_FORMATS:
            raise ValueError(
                f"records of the format {self.format} name their table: leave routes out, or choose the format that the records have"
            )
        if self.routes and self.table_from_topic:
            raise ValueError("give either tableFromTopic or routes")
        by_value = any(route.matches is not None for route in self.routes)
        if by_value and not self.table_field:
            raise ValueError("matches in routes is about the value of tableField, which is missing")
        if self.routes and self.table_field and not by_value:
            raise ValueError("no rule of routes is about the value of tableField: leave tableField out")
        if self.operation_field and not self.format.startswith("upsert-"):
            raise ValueError(
                f"operationField is for the formats upsert-json and upsert-avro; records of {self.format} say what they do"
            )
        if "operations" in self.model_fields_set and not self.operation_field:
            raise ValueError("operations is about the values of operationField, which is missing")
        return self

    @model_validator(mode="after")
    def _transactions_fit(self) -> Self:
        if self.transaction_topic and self.distributed:
            raise ValueError("transactionTopic needs distributed: false; executors read each partition by itself")
        if self.transaction_topic and self.format != "debezium-json":
            raise ValueError(f"transactionTopic is read with the format debezium-json only, not with {self.format}")
        return self

    @property
    def named_topics(self) -> tuple[str, ...]:
        """The topics that have to exist."""
        more = self.transaction_topic
        return self.topics if more is None or more in self.topics else (*self.topics, more)

    @property
    def names_tables(self) -> bool:
        """Whether records name their table, so that a topic may hold any."""
        return self.format in _SELF_NAMING_FORMATS or self.routes_records

    @property
    def routes_records(self) -> bool:
        """Whether settings say of each record which tables it is for, by its fields or by rules: a topic may hold several, or their records
        may be for several.
        """
        return self.table_field is not None or bool(self.routes)

    def wants(self, topic: str) -> bool:
        """Whether the topic is to be read."""
        if topic in self.named_topics or self.topic_pattern is None:
            return topic in self.named_topics
        return re.fullmatch(self.topic_pattern, topic) is not None

    @property
    def group(self) -> str:
        """The consumer group to which the durable offset is committed; empty for none."""
        return str(plain(self.kafka.get("group.id", "")))

    def own_number(self, name: str) -> int:
        """A client setting that the source itself uses, such as `fetch.max.bytes`."""
        return own_number(self.kafka, name)
