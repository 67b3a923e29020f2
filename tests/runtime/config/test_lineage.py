"""The transport of lineage: its macros are resolved where it is used, and its secrets are shown nowhere."""

from __future__ import annotations

import importlib.util
import tempfile
from pathlib import Path
from typing import Any

import pytest

from replicator_runtime.config import build_pipeline
from replicator_runtime.config.pipeline import Pipeline
from replicator_runtime.config.problem import InvalidPipelineError
from replicator_runtime.lineage import transport
from replicator_runtime.observability.redaction import redact
from tests.runtime.engine.test_run import Host, Shop


def built(folder: Path, lineage: dict[str, Any]) -> Pipeline:
    document = {**Shop(Path(tempfile.mkdtemp(dir=folder))).document, "lineage": lineage}
    return build_pipeline(document, host=Host())  # type: ignore[arg-type]


def problems(folder: Path, lineage: dict[str, Any]) -> list[str]:
    with pytest.raises(InvalidPipelineError) as caught:
        built(folder, lineage)
    return [f"{one.path} {one.code} {one.message} {one.hint}" for one in caught.value.problems]


def test_secrets_are_macros_that_are_resolved_for_the_transport_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPLICATOR_SECRET_COLLECTOR", "canary-3141592653")
    written = {"type": "http", "url": "http://c", "auth": {"type": "api_key", "apiKey": "${secure(collector)}"}}
    pipeline = built(tmp_path, {"transport": written})
    assert pipeline.lineage_transport is not None
    assert pipeline.lineage_transport["auth"]["apiKey"] == "canary-3141592653"
    assert pipeline.config.lineage is not None
    assert pipeline.config.lineage.transport == written, "it may be shown"
    assert "canary" not in repr(pipeline)


def test_a_secret_that_is_written_in_the_file_is_redacted_too(tmp_path: Path) -> None:
    kafka = {
        "type": "kafka",
        "topic": "t",
        "config": {"bootstrap.servers": "b.example.com:9092", "sasl.password": "canary-2718281828"},
    }
    built(tmp_path, {"transport": kafka})
    assert redact("b.example.com:9092 refused: canary-2718281828") == "b.example.com:9092 refused: ***"


def test_problems_name_their_place(tmp_path: Path) -> None:
    [missing] = problems(tmp_path, {"transport": {"url": "http://c"}})
    assert missing.startswith("lineage.transport.type RPL-1003 missing")
    [misspelt] = problems(tmp_path, {"transport": {"type": "kafkaa"}})
    assert "no transport of OpenLineage" in misspelt
    assert "http, kafka" in misspelt
    unresolved = {"type": "http", "url": "${env(NO_SUCH_VARIABLE)}"}
    [found] = problems(tmp_path, {"transport": unresolved})
    assert found.startswith("lineage.transport.url RPL-1004")
    [key] = problems(tmp_path, {"transport": {"type": "http"}, "every": 1})
    assert 'unknown key "every"' in key


def test_secrets_of_transports_within_others_are_redacted_and_nothing_else_is(tmp_path: Path) -> None:
    config = {"bootstrap.servers": "b.example.com:1", "sasl.username": "replicator", "sasl.password": "hunter2"}
    kafka = {"type": "kafka", "topic": "t", "config": {**config, "ssl.key.location": "/etc/kafka/key.pem"}}
    http = {"type": "http", "url": "http://c", "auth": {"type": "api_key", "apiKey": "canary-1618"}}
    named = {
        "type": "composite",
        "transports": {"a": {"type": "transform", "transport": {**http, "custom_headers": {"X": "canary-1414"}}}},
    }
    built(tmp_path, {"transport": {"type": "composite", "transports": [kafka, http, named]}})
    assert redact("hunter2 canary-1618 canary-1414") == "*** *** ***"
    plain = "replicator table resync at b.example.com:1 with api_key of /etc/kafka/key.pem"
    assert redact(plain) == plain


def test_what_is_no_transport_within_another_is_left_to_the_client(tmp_path: Path) -> None:
    for transports in (None, 5, "x", [None]):
        built(tmp_path, {"transport": {"type": "composite", "transports": transports}})


def test_one_part_of_a_composite_transport_that_fails_has_the_event_sent_again() -> None:
    parts = [{"type": "composite", "transports": [{"type": "console"}]}, {"type": "console"}]
    made: Any = transport.open_transport({"type": "composite", "transports": parts})
    assert not made.config.continue_on_failure
    assert not made.transports[0].config.continue_on_failure
    chosen: Any = transport.open_transport({"type": "composite", "transports": parts, "continue_on_failure": True})
    assert chosen.config.continue_on_failure


def test_what_is_wrong_with_brokers_names_its_place_also_in_a_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = problems(tmp_path, {"transport": {"type": "kafka", "config": {}, "flush": False}})
    assert [one.split()[0] for one in found] == [
        "lineage.transport.config", "lineage.transport.topic", "lineage.transport.flush",
    ]  # fmt: skip
    right = {"type": "kafka", "topic": "t", "config": {"bootstrap.servers": "b:1"}}
    slow = {**right, "config": {**right["config"], "message.timeout.ms": 300000}}  # type: ignore[dict-item]
    [found_slow] = problems(tmp_path, {"transport": {"type": "transform", "transport": slow}})
    assert found_slow.startswith("lineage.transport.transport.config.message.timeout.ms ")
    monkeypatch.setattr(transport, "find_spec", lambda name: None if name == "confluent_kafka" else object())
    for parts, place in (([right], "0"), ({"a": right}, "a")):
        [missing] = problems(tmp_path, {"transport": {"type": "composite", "transports": parts}})
        assert missing.startswith(f"lineage.transport.transports.{place} ")
        assert "pip install 'replicator[lineage-kafka]'" in missing


def test_without_the_library_the_pipeline_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(transport, "find_spec", lambda name: None if name == "openlineage" else find(name))
    [found] = problems(tmp_path, {"transport": {"type": "http", "url": "http://c"}})
    assert "pip install 'replicator[lineage]'" in found
