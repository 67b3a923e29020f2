"""From the bytes of records to changes in columns; one module a format."""

from __future__ import annotations

from replicator_sdk.config import OutOfRange
from replicator_sdk.errors import NeedsUserError
from replicator_source_kafka.config import KafkaConfig
from replicator_source_kafka.formats.debezium_json import DebeziumJson
from replicator_source_kafka.formats.debezium_protobuf import DebeziumProtobuf
from replicator_source_kafka.formats.flat_json import FlatJson
from replicator_source_kafka.formats.format import Decoded, Format, Part, Poison
from replicator_source_kafka.formats.registry_envelopes import DebeziumAvro

__all__ = ["Decoded", "Format", "Part", "Poison", "make_format"]


def make_format(config: KafkaConfig, out_of_range: OutOfRange = OutOfRange.FAIL) -> Format:
    """The format that the settings name.

    Args:
        config: The settings; their own `outOfRange` wins.
        out_of_range: The pipeline's policy for values the standard types cannot hold.

    Raises:
        NeedsUserError: When it is not there, or needs a library that is not.
    """
    rule = config.out_of_range or out_of_range
    if config.format == "debezium-json":
        return DebeziumJson(config, rule)
    if config.format == "debezium-avro":
        return DebeziumAvro(config, rule)
    if config.format == "debezium-protobuf":
        return DebeziumProtobuf(config, rule)
    if config.format in {"flattened-json", "upsert-json"}:
        return FlatJson(config, rule)
    raise NeedsUserError(
        f"the format {config.format} is not there yet",
        code="RPL-3903",
        hint="let the connector write debezium-json",
    )
