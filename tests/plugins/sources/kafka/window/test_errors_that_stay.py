"""An error about topics that stays ends the attempt, also after records were lost that no table needs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from kafka.errors import UnknownTopicOrPartitionError

from replicator_sdk.errors import ReplicatorError
from replicator_source_kafka.client import diagnosis
from replicator_source_kafka.window import reader
from tests.plugins.sources.kafka.harness.memory_copy import MemoryCopy, topics_of
from tests.plugins.sources.kafka.window.test_numbers_after_loss import SETTINGS, end_after_change, lose, rows, write
from tests.services.kafka.broker import KafkaBroker


def test_a_window_that_cannot_be_read_is_not_tried_again_at_once(
    tmp_path: Path, kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts = 0

    def unknown(*_: Any) -> None:
        nonlocal attempts
        attempts += 1
        assert attempts < 100, "tried without end"
        raise UnknownTopicOrPartitionError

    with topics_of(kafka, "a", "b") as topics:
        copy = MemoryCopy(tmp_path, kafka, **SETTINGS, topics=list(topics.values()))
        copy.document["tables"] = [{"table": "b"}]
        kafka.produce(topics["b"], rows([1]))
        copy.run()
        write(kafka, topics, "truncate")
        end_after_change(copy)
        lose(kafka, topics["a"], "retention")
        assert diagnosis.concerns_topics(UnknownTopicOrPartitionError())
        monkeypatch.setattr(reader, "read_ranges", unknown)
        with pytest.raises(ReplicatorError):
            copy.run()
        assert attempts == 1
