"""Decodes the bytes of records into changes by table; `make_format` chooses the format by the settings."""

from __future__ import annotations

from collections.abc import Callable

from replicator_sdk.config import OutOfRange
from replicator_source_kafka.config import FormatName, KafkaConfig
from replicator_source_kafka.formats.envelope.debezium_json import DebeziumJson
from replicator_source_kafka.formats.envelope.debezium_protobuf import DebeziumProtobuf
from replicator_source_kafka.formats.envelope.registry_envelopes import DebeziumAvro
from replicator_source_kafka.formats.flat.flat_avro import FlatAvro
from replicator_source_kafka.formats.flat.flat_json import FlatJson
from replicator_source_kafka.formats.format import Decoded, Format, Part, Poison

__all__ = ["Decoded", "Format", "Part", "Poison", "make_format"]


def make_format(config: KafkaConfig, out_of_range: OutOfRange = OutOfRange.FAIL) -> Format:
    """The format that the settings name.

    Args:
        config: The settings; their own `outOfRange` takes precedence.
        out_of_range: The pipeline's policy for values the standard types cannot hold.
    """
    rule = config.out_of_range or out_of_range
    return _FORMATS[config.format](config, rule)


_FORMATS: dict[FormatName, Callable[[KafkaConfig, OutOfRange], Format]] = {
    "debezium-json": DebeziumJson,
    "debezium-avro": DebeziumAvro,
    "debezium-protobuf": DebeziumProtobuf,
    "flattened-json": FlatJson,
    "flattened-avro": FlatAvro,
    "upsert-json": FlatJson,
    "upsert-avro": FlatAvro,
}
