"""Reports problems of brokers, topics and records before a pipeline is started."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final

from replicator_sdk.config import OutOfRange
from replicator_sdk.discovery.assessment import (
    Assessment,
    ColumnAssessment,
    Finding,
    Severity,
    TableAssessment,
    TableAssessor,
)
from replicator_sdk.errors import ReplicatorError
from replicator_sdk.schema import TableSchema
from replicator_source_kafka.assessment.topic_findings import partition_findings, retention_findings
from replicator_source_kafka.client.cluster import EARLIEST, LATEST, Cluster
from replicator_source_kafka.client.diagnosis import diagnosed
from replicator_source_kafka.client.fetch import sample_records
from replicator_source_kafka.client.metadata import Topic
from replicator_source_kafka.config import KafkaConfig
from replicator_source_kafka.formats import make_format
from replicator_source_kafka.records import Records
from replicator_source_kafka.tables import quarantine
from replicator_source_kafka.topics.selection import check_named, find_topics

_SAMPLE_BYTES: Final = 1 << 18
_SETTINGS: Final = ("cleanup.policy", "retention.ms", "retention.bytes", "delete.retention.ms")


class KafkaTableAssessor(TableAssessor):
    """Checks the brokers, the settings of the topics and a sample of their records; changes nothing."""

    def __init__(self, config: KafkaConfig) -> None:
        self._config = config

    def assess(self) -> Assessment:
        """Findings about the cluster and each topic; a check that fails is a finding, too."""
        found: list[Finding] = []
        try:
            with diagnosed("reading the topics"), Cluster(self._config) as cluster:
                topics = find_topics(cluster, self._config)
                check_named(self._config, topics)
                if not topics:
                    found.append(_no_topics())
                for topic in topics.values():
                    found += _attempt(partial(self._topic, cluster, topic))
                found += _attempt(partial(_upkeep, cluster, topics))
        except ReplicatorError as error:
            found.append(_failed(error))
        return Assessment(tuple(found))

    def _topic(self, cluster: Cluster, topic: Topic) -> list[Finding]:
        """Findings from a sample of each partition."""
        begins = cluster.offsets(dict.fromkeys(topic.partitions, EARLIEST))
        ends = cluster.offsets(dict.fromkeys(topic.partitions, LATEST))
        samples = [
            sample_records(cluster, tp, begins[tp], max_bytes=_SAMPLE_BYTES)
            for tp in topic.partitions
            if begins[tp] < ends[tp]
        ]
        return [*partition_findings(topic, samples), *self._unreadable(samples)]

    def _unreadable(self, samples: Iterable[Records]) -> list[Finding]:
        decoder = make_format(self._config, self._config.out_of_range or OutOfRange.FAIL)
        for records in samples:
            poison = decoder.decode(records).poison
            if poison:
                return [_poison(records.position(poison[0].index), poison[0].code, poison[0].reason, self._config)]
        return []

    def assess_table(self, schema: TableSchema) -> TableAssessment:
        """The standard type of every column."""
        columns = tuple(ColumnAssessment(c.name, c.source_type, str(c.type)) for c in schema.columns)
        findings = () if schema.primary_key or schema.table == quarantine.TABLE else (_keyless(schema),)
        return TableAssessment(schema.table, columns, findings)


def _upkeep(cluster: Cluster, topics: Mapping[str, Topic]) -> list[Finding]:
    settings = cluster.topic_settings(list(topics), _SETTINGS) if topics else {}
    return [finding for name, values in settings.items() for finding in retention_findings(name, values)]


def _attempt(look: Callable[[], list[Finding]]) -> list[Finding]:
    """The findings of a check, or the finding that it failed."""
    try:
        with diagnosed("reading a topic"):
            return look()
    except ReplicatorError as error:
        return [_failed(error)]


def _failed(error: ReplicatorError) -> Finding:
    return Finding(
        "unreadable" if error.code == "RPL-3964" else "unreachable",
        Severity.ERROR,
        error.message,
        "the topics cannot be read",
        error.hint,
        code=error.code,
    )


def _no_topics() -> Finding:
    return Finding(
        "no_topics",
        Severity.WARNING,
        "no topic matches topicPattern yet",
        "there is nothing to replicate until one is created",
        "check that the pattern matches a topic's whole name, and that the login may DESCRIBE the topics",
    )


def _poison(tp: str, code: str, reason: str, config: KafkaConfig) -> Finding:
    kept = config.on_poison == "quarantine"
    return Finding(
        "unreadable_record",
        Severity.WARNING if kept else Severity.ERROR,
        f"{tp} cannot be read as {config.format}: {reason}",
        f"it is stored in {quarantine.TABLE}, which the pipeline's tables must name"
        if kept
        else "replication stops at this record",
        quarantine.advice(code),
        code=code,
    )


def _keyless(schema: TableSchema) -> Finding:
    return Finding(
        "no_key",
        Severity.WARNING,
        f"the records of {schema.table} have no key",
        "a connector that is restarted may write records twice, and the second ones are applied as new rows; updates and"
        " deletes need the whole row before the change",
        "give the table a primary key, or set the connector's message.key.columns",
        table=schema.table,
    )
