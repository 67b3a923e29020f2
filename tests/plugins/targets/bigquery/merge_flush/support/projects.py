"""Projects in mode merge-flush, and what these tests look at."""

from __future__ import annotations

import re
from typing import Any

from replicator_sdk.target import DeferredConsumer
from replicator_target_bigquery.consumer import BigQueryConsumer
from replicator_target_bigquery.merge_flush.consumer import MergeFlushConsumer
from tests.plugins.targets.bigquery.support.changes import KEYED
from tests.plugins.targets.bigquery.support.project import Project
from tests.services.bigquery.emulators import Emulators

KEY = "customKeyField"
_INTERMEDIATE = re.compile(r"_customers__tmp_conformance_[0-9a-f]{32}_[0-9]{13}")


def streaming(emulators: Emulators, **settings: Any) -> Project:
    """A project whose consumers upsert and delete, and merge only when they are asked to."""
    chosen = {
        "mode": "merge-flush",
        "upsert_enabled": True,
        "delete_enabled": True,
        "kafka_key_field_name": KEY,
        "merge_interval_ms": 3_600_000,
    }
    return Project(emulators, **{**chosen, **settings})


def merging(project: Project, *, epoch: int = 1, name: str = "conformance") -> MergeFlushConsumer:
    """A consumer of the run `epoch`."""
    made: BigQueryConsumer = project.consumer(epoch=epoch, name=name)
    assert isinstance(made, MergeFlushConsumer)
    return made


def settle(consumer: BigQueryConsumer) -> None:
    """Merge what was streamed, where the mode streams ahead."""
    if isinstance(consumer, DeferredConsumer):
        consumer.settle([KEYED.table])
        consumer.settled(KEYED.table)


def intermediates(project: Project) -> list[str]:
    """The intermediate tables of `customers` that are there."""
    found = project.select("SELECT table_name FROM {d}.INFORMATION_SCHEMA.TABLES ORDER BY table_name")
    return [name for (name,) in found if _INTERMEDIATE.fullmatch(name)]
