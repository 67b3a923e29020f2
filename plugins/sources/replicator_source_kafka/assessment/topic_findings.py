"""Findings about one topic: its keys, its partitions and its retention."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from replicator_sdk.discovery.assessment import Finding, Severity
from replicator_source_kafka.client.metadata import Topic
from replicator_source_kafka.records import Records

_DAY_MS: Final = 24 * 3600 * 1000
_ENOUGH_DAYS: Final = 3


def partition_findings(topic: Topic, samples: Sequence[Records]) -> list[Finding]:
    """Whether keys and partitions keep the order of changes.

    Args:
        topic: The topic.
        samples: Some records of each partition that has any.
    """
    if not samples:
        return [
            Finding(
                "empty_topic",
                Severity.INFO,
                f"{topic.name} has no records",
                "its table is unknown until the first record arrives, and is created then",
                "nothing needs to be done",
            )
        ]
    unkeyed = any(len(records) and records.key.null_count == len(records) for records in samples)
    if unkeyed and len(topic.leaders) > 1:
        return [
            Finding(
                "unkeyed_partitions",
                Severity.WARNING,
                f"{topic.name} has {len(topic.leaders)} partitions and records without keys",
                "changes of one row may be in several partitions, which have no common order",
                "give the records keys, or the topic one partition",
            )
        ]
    return [
        Finding(
            "partitions",
            Severity.INFO,
            f"{topic.name} has {len(topic.leaders)} partitions",
            "they are read in parallel; adding partitions later moves keys, and reading then stops until onNewPartitions is"
            " set",
            "choose the number before the connector's first record",
        )
    ]


def _compaction(name: str, keeps: int) -> Finding:
    """That a topic is compacted, and for how many milliseconds it keeps removals of rows; -1 when that is not known, or for ever."""
    described, impact = (
        f"{name} is compacted",
        "the newest record of each key is kept, which is all that a target needs",
    )
    if not 0 <= keeps < _ENOUGH_DAYS * _DAY_MS:
        action = (
            "nothing needs to be done; delete.retention.ms must be longer than the longest downtime of the replicator"
        )
        return Finding("compaction", Severity.INFO, described, impact, action)
    return Finding(
        "compaction",
        Severity.WARNING,
        f"{described} and keeps removals of rows for {keeps / 3_600_000:.1f} hours",
        "a table that is not read for longer may miss removals of rows: it stops with RPL-3990, or the run with RPL-3989, and is filled again",
        "raise delete.retention.ms above the longest downtime you expect",
        fix=f"kafka-configs.sh --bootstrap-server … --alter --topic {name} --add-config delete.retention.ms={7 * _DAY_MS}",
    )


def retention_findings(name: str, settings: Mapping[str, str]) -> list[Finding]:
    """How long the replicator may be down before a topic loses records that were not read."""
    policy = settings.get("cleanup.policy", "")
    keeps = int(settings.get("retention.ms") or -1)
    found = []
    if "compact" in policy:
        found.append(_compaction(name, int(settings.get("delete.retention.ms") or -1)))
    if "delete" in policy and 0 <= keeps < _DAY_MS:
        found.append(
            Finding(
                "retention",
                Severity.WARNING,
                f"{name} keeps records for {keeps / 3_600_000:.1f} hours",
                "a replicator that is down for longer loses changes, stops with RPL-3953 and needs a new snapshot",
                "raise retention.ms above the longest downtime you expect",
                fix=f"kafka-configs.sh --bootstrap-server … --alter --topic {name} --add-config retention.ms={7 * _DAY_MS}",
            )
        )
    if "delete" in policy and int(settings.get("retention.bytes") or -1) >= 0:
        found.append(
            Finding(
                "retention_bytes",
                Severity.WARNING,
                f"{name} deletes records by size (retention.bytes)",
                "the longest possible downtime depends on how much is written meanwhile",
                "set retention.bytes to -1 and rely on retention.ms",
                fix=f"kafka-configs.sh --bootstrap-server … --alter --topic {name} --add-config retention.bytes=-1",
            )
        )
    return found
