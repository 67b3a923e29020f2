"""Settings: which are allowed, which exclude each other, and which are secret."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from replicator_source_kafka import KafkaConfig
from replicator_source_kafka.client_settings import client_arguments


def config(**settings: Any) -> KafkaConfig:
    return KafkaConfig.model_validate({"bootstrapServers": "b:9092", "topics": ["t"], **settings})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"topicPattern": "t.*"}, "either topics or topicPattern"),
        ({"topics": []}, "either topics or topicPattern"),
        ({"topics": [], "topicPattern": "("}, "not a regular expression"),
        ({"format": "debezium-avro"}, "needs schemaRegistryUrl"),
        ({"schemaRegistryUrl": "http://r"}, "has no use for schemaRegistryUrl"),
        ({"tableFromTopic": "(?P<table>.*)"}, "name their table"),
        ({"format": "upsert-json", "tableFromTopic": "(.*)"}, "needs a group named table"),
        ({"format": "upsert-json", "tableFromTopic": "(?P<table>.*)", "tableField": "x"}, "either tableField"),
        ({"routes": [{"table": "t"}]}, "name their table: leave routes out"),
        ({"format": "upsert-json", "routes": [{}]}, "give a table, or what the records match"),
        ({"format": "upsert-json", "routes": [{"table": "t", "matches": "("}]}, "not a regular expression"),
        ({"format": "upsert-json", "routes": [{"table": "t", "matches": "a"}]}, "tableField, which is missing"),
        ({"format": "upsert-json", "routes": [{"table": "t"}], "tableField": "x"}, "leave tableField out"),
        (
            {"format": "upsert-json", "routes": [{"table": "t"}], "tableFromTopic": "(?P<table>.*)"},
            "either tableFromTopic or routes",
        ),
        ({"operationField": "op"}, "for the formats upsert-json"),
        ({"format": "flattened-json", "operationField": "op"}, "for the formats upsert-json"),
        ({"format": "upsert-json", "operations": {"insert": ["c"]}}, "operationField, which is missing"),
        (
            {"format": "upsert-json", "operationField": "op", "operations": {"insert": ["U"]}},
            "values with two meanings: U",
        ),
        ({"startFrom": {"other": {"0": 1}}}, "topics that are not read: other"),
        ({"startFrom": {"t": {"0": -1}}}, "greater than or equal to 0"),
        ({"startFrom": "2026-01-31T00:00:00"}, "needs a zone"),
        ({"kafka": {"fetch.max.byte": 5}}, "did you mean 'fetch.max.bytes'"),
        ({"kafka": {"enable.auto.commit": True}}, "not allowed"),
        ({"kafka": {"isolation.level": "read_uncommitted"}}, "not allowed"),
        ({"kafka": {"request.timeout.ms": "soon"}}, "must be a whole number"),
        ({"kafka": {"security.protocol": "sasl-ssl"}}, "must be one of PLAINTEXT, SSL"),
        ({"kafka": {"ssl.ca.location": "/ca.pem"}}, "'ssl.ca.location' has no use while .* PLAINTEXT"),
        ({"kafka": {"security.protocol": "SSL", "sasl.username": "u"}}, "'sasl.username' has no use while .* SSL"),
        ({"kafka": {"security.protocol": "SASL_SSL"}}, "sasl.mechanism must be one of PLAIN, SCRAM-SHA-256"),
        ({"kafka": {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}}, "PLAIN needs sasl.username"),
        ({"columnTypes": {"s.t": {"a": "int63"}}}, "not a standard type"),
        ({"onPoison": "skip"}, "stop"),
        ({"transactionTopic": "s.transaction"}, "needs distributed: false"),
        (
            {"transactionTopic": "x", "distributed": False, "format": "upsert-json"},
            "with the format debezium-json only",
        ),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        config(**settings)


@pytest.mark.parametrize("start", ["earliest", "latest", "2026-01-31T00:00:00Z", {"t": {"0": 123}}])
def test_every_form_of_start_is_read(start: object) -> None:
    assert config(startFrom=start).start_from is not None


def test_a_pattern_must_match_the_whole_name() -> None:
    pattern = config(topics=[], topicPattern=r"shop\..+")
    assert pattern.wants("shop.public.orders")
    assert not pattern.wants("workshop.public.orders")
    assert not pattern.wants("shopXpublic")


def test_secrets_do_not_print_and_reach_the_client() -> None:
    kafka = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "u",
        "sasl.password": "hush-hush",
        "request.timeout.ms": "5000",
    }
    made = config(kafka=kafka)
    assert "hush-hush" not in repr(made)
    assert "hush-hush" not in made.model_dump_json()
    assert client_arguments(made.kafka) == {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "u",
        "sasl_plain_password": "hush-hush",
        "request_timeout_ms": 5000,
    }


@pytest.mark.parametrize("kind", ["decimal(38,0)", "timestamp/ms", "time/us", "instant/ns"])
def test_a_columns_type_may_name_the_unit_its_numbers_count_in(kind: str) -> None:
    assert config(columnTypes={"s.t": {"a": kind}}).column_types["s.t"]["a"] == kind
