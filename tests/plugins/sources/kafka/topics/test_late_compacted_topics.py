"""Whoever comes late to a compacted topic finds that in each way to read it: a paused table, a run that goes on, an earlier or first position.

As `test_missed_deletes`, with a real cleaner.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka.admin import ACL, ACLOperation, ACLPermissionType, ResourcePattern, ResourceType

from replicator_sdk.errors import HistoryLostError, ReplicatorError
from replicator_source_kafka import KafkaOffset
from replicator_source_kafka.topics.missed_deletes import MissedDeletes
from tests.plugins.sources.kafka.client.test_secure import access
from tests.plugins.sources.kafka.harness.memory_copy import MemoryCopy, topics_of
from tests.plugins.sources.kafka.harness.source_runs import Pump
from tests.plugins.sources.kafka.topics.test_missed_deletes import (
    BOTH,
    CLEANED,
    LATER,
    SETTINGS,
    SOON,
    clean,
    copy_of,
    ids,
    leave_one,
    removals,
    rows,
)
from tests.services.kafka.broker import KafkaBroker
from tests.services.kafka.secure import USER, SecureKafkaBroker

MISSED = {"RPL-3989", "RPL-3990"}


def stopped(copy: MemoryCopy) -> tuple[str, str | None]:
    """The code of the error with which a run ends, and its table."""
    with pytest.raises(ReplicatorError) as refused:
        copy.run()
    return refused.value.code, refused.value.table


def lose_a_removal(kafka: KafkaBroker, topic: str, number: int) -> None:
    """A row is removed, and the cleaner takes the removal."""
    kafka.produce(topic, removals([number]))
    clean(kafka, topic, number)


# ------------------------------------------------------------ a table that is read by itself


@pytest.mark.parametrize("resumed", [True, False])
def test_a_paused_table_whose_removals_are_gone_stops_and_the_others_go_on(
    tmp_path: Path, kafka: KafkaBroker, *, resumed: bool
) -> None:
    with topics_of(kafka, "orders", "others") as topics:
        kafka.alter_topic(topics["orders"], **CLEANED, delete_retention_ms=SOON)
        for topic in topics.values():
            kafka.produce(topic, rows([1, 2, 3]))
        copy = copy_of(tmp_path, kafka, topics, distributed=True)
        copy.run()
        copy.ask("pause", "orders")
        kafka.produce(topics["orders"], removals([2]))
        kafka.produce(topics["others"], rows([4]))
        copy.run()
        assert ids(copy, "others") == [1, 2, 3, 4]
        clean(kafka, topics["orders"], 2)
        if resumed:
            copy.ask("resume", "orders")
        kafka.produce(topics["others"], rows([5]))
        assert stopped(copy) == ("RPL-3990", "public.orders")
        kafka.produce(topics["others"], rows([6]))
        assert stopped(copy) == ("RPL-2005", "public.orders")
        assert (ids(copy, "orders"), ids(copy, "others")) == ([1, 2, 3], [1, 2, 3, 4, 5, 6])
        kafka.alter_topic(topics["orders"], **CLEANED, delete_retention_ms=LATER)
        copy.reset()
        for number in (7, 8, 9):
            copy.run()
            assert ids(copy, "orders") == [1, 3, *range(7, number), 9]
            kafka.produce(topics["orders"], rows([number]))


def test_a_paused_table_that_is_resumed_in_time_is_read_beside_what_was_compacted(
    tmp_path: Path, kafka: KafkaBroker
) -> None:
    with topics_of(kafka, "orders", "others") as topics:
        kafka.alter_topic(topics["orders"], **CLEANED, delete_retention_ms=LATER)
        for topic in topics.values():
            kafka.produce(topic, rows([1, 2, 3]))
        copy = copy_of(tmp_path, kafka, topics, distributed=True)
        copy.run()
        copy.ask("pause", "orders")
        kafka.produce(topics["orders"], [*rows([7], "x"), *rows([7], "y"), *removals([2, 7])])
        kafka.produce(topics["others"], rows([4]))
        copy.run()
        leave_one(kafka, topics["orders"], 7)
        copy.ask("resume", "orders")
        for number in (4, 5, 6):
            copy.run()
            assert ids(copy, "orders") == [1, 3, *range(4, number), 9]
            kafka.produce(topics["orders"], rows([number]))


# ------------------------------------------------------------ while a run goes on


def test_a_run_whose_target_is_away_finds_that_a_removal_is_gone(kafka: KafkaBroker) -> None:
    with topics_of(kafka, "orders") as topics:
        topic = topics["orders"]
        kafka.alter_topic(topic, **CLEANED, delete_retention_ms=SOON)
        kafka.produce(topic, rows([1, 2, 3]))
        pump = Pump(kafka, [topic], **SETTINGS, metadataIntervalSeconds=0.1, kafka={"fetch.max.wait.ms": 50})
        pump.read()
        found: list[BaseException | None] = []
        with contextlib.suppress(HistoryLostError), pump.running() as run:
            lose_a_removal(kafka, topic, 2)
            run.wait_until(lambda: run.error is not None, 60)
            found.append(run.error)
        assert isinstance(found[0], HistoryLostError)
        assert found[0].code in MISSED


def test_a_run_whose_target_has_all_that_was_read_goes_on_beside_the_cleaner(kafka: KafkaBroker) -> None:
    with topics_of(kafka, "orders") as topics:
        topic = topics["orders"]
        kafka.alter_topic(topic, **CLEANED, delete_retention_ms=10 * SOON)
        kafka.produce(topic, rows([1, 2, 3]))
        pump = Pump(kafka, [topic], **SETTINGS, metadataIntervalSeconds=0.1, kafka={"fetch.max.wait.ms": 50})
        pump.read()
        with pump.running() as run:
            kafka.produce(topic, removals([2]))
            until = time.monotonic() + 60
            key = removals([2])[0][0]
            while any(record.key == key for record in kafka.records(topic)):
                assert time.monotonic() < until, "the topic is not cleaned"
                kafka.produce(topic, rows([9]))
                end = pump.source.latest_offset()
                run.wait_for(end)
                pump.context.committed = end
            assert run.error is None


# ------------------------------------------------------------ other positions


@BOTH
def test_a_first_position_at_the_end_of_a_compacted_topic_counts_as_read(
    tmp_path: Path, kafka: KafkaBroker, *, distributed: bool
) -> None:
    """No row of before is at the target; what is removed afterwards and gone is missed."""
    with topics_of(kafka, "orders") as topics:
        kafka.alter_topic(topics["orders"], **CLEANED, delete_retention_ms=SOON)
        kafka.produce(topics["orders"], [*rows([1, 2, 3]), *rows([3], "new")])
        leave_one(kafka, topics["orders"], 3)
        copy = copy_of(tmp_path, kafka, topics, distributed=distributed, startFrom="latest")
        copy.run()
        kafka.produce(topics["orders"], [*rows([4], "a"), *rows([4], "b")])
        leave_one(kafka, topics["orders"], 4)
        copy.run()
        assert 4 in ids(copy, "orders")
        lose_a_removal(kafka, topics["orders"], 4)
        assert stopped(copy)[0] in MISSED


def test_a_rewind_to_before_a_removal_that_is_gone_is_found(kafka: KafkaBroker) -> None:
    """As a position that was saved once, with what was remembered since; one after the removal is read."""
    with topics_of(kafka, "orders") as topics:
        topic = topics["orders"]
        kafka.alter_topic(topic, **CLEANED, delete_retention_ms=SOON)
        kafka.produce(topic, rows([1, 2, 3]))
        pump = Pump(kafka, [topic], **SETTINGS, metadataIntervalSeconds=0.1, kafka={"fetch.max.wait.ms": 50})
        pump.read()
        before = pump.offset
        assert isinstance(before, KafkaOffset)
        kafka.produce(topic, removals([2]))
        pump.read()
        after = pump.offset
        clean(kafka, topic, 2)
        pump.offset = pump.context.committed = before
        with pytest.raises(HistoryLostError) as refused:
            pump.read()
        assert refused.value.code in MISSED
        kafka.alter_topic(topic, cleanup_policy="compact", delete_retention_ms=LATER)
        pump.offset = pump.context.committed = after
        pump.context.state.clear()
        pump.read()


# ------------------------------------------------------------ what the offsets have


@BOTH
def test_the_markers_of_transactions_are_no_missing_records(
    tmp_path: Path, kafka: KafkaBroker, *, distributed: bool
) -> None:
    with topics_of(kafka, "orders") as topics:
        kafka.alter_topic(topics["orders"], cleanup_policy="compact", delete_retention_ms=1)
        kafka.produce(topics["orders"], rows([1, 2, 3]))
        copy = copy_of(tmp_path, kafka, topics, distributed=distributed)
        for number in (4, 5, 6):
            copy.run()
            assert ids(copy, "orders") == [1, *([2] if number == 4 else []), 3, *range(4, number)]
            kafka.transaction(topics["orders"], [*rows([number]), *removals([2])])
            kafka.transaction(topics["orders"], rows([99]), commit=False)
            time.sleep(0.1)
        copy.run()
        assert ids(copy, "orders") == [1, 3, 4, 5, 6]


# ------------------------------------------------------------ what is not known


@BOTH
def test_a_state_of_before_ends_were_remembered_counts_as_read_once(
    tmp_path: Path, kafka: KafkaBroker, *, distributed: bool
) -> None:
    with topics_of(kafka, "orders") as topics:
        kafka.alter_topic(topics["orders"], **CLEANED, delete_retention_ms=SOON)
        kafka.produce(topics["orders"], rows([1, 2, 3]))
        copy = copy_of(tmp_path, kafka, topics, distributed=distributed)
        with pytest.MonkeyPatch.context() as before:
            before.setattr(MissedDeletes, "begin", lambda *_: None)
            before.setattr(MissedDeletes, "of", lambda *_: {})
            before.setattr(MissedDeletes, "remember", lambda *_: {})
            copy.run()
        lose_a_removal(kafka, topics["orders"], 2)
        copy.run()
        assert ids(copy, "orders") == [1, 2, 3, 9], "the row that is gone is not known to be"
        lose_a_removal(kafka, topics["orders"], 3)
        assert stopped(copy)[0] in MISSED


class GuardedBroker(SecureKafkaBroker):
    """A broker that asks for rights of whoever logs in; the tests themselves may do all."""

    def _listeners(self) -> dict[str, object]:
        authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
        return {**super()._listeners(), "authorizer.class.name": authorizer, "super.users": "User:ANONYMOUS"}

    def allow(self, *operations: ACLOperation) -> None:
        """Give `USER` rights on all topics."""
        topics = ResourcePattern(ResourceType.TOPIC, "*")
        with self.admin() as admin:
            admin.create_acls(
                [ACL(f"User:{USER}", "*", operation, ACLPermissionType.ALLOW, topics) for operation in operations]
            )


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedBroker]:
    """The broker, with a user that may read."""
    made = GuardedBroker(tmp_path_factory.mktemp("guarded"))
    try:
        made.start()
        made.allow(ACLOperation.READ, ACLOperation.DESCRIBE)
        yield made
    finally:
        made.remove()


def test_a_login_that_may_not_see_settings_is_said_to_see_nothing_until_it_may(
    tmp_path: Path, guarded: GuardedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with topics_of(guarded, "orders") as topics:
        guarded.alter_topic(topics["orders"], **CLEANED, delete_retention_ms=SOON)
        guarded.produce(topics["orders"], rows([1, 2, 3]))
        copy = copy_of(tmp_path, guarded, topics, distributed=False)
        copy.source |= access(guarded, "PLAIN")
        copy.run()
        assert "whether 1 topics are compacted cannot be seen (DescribeConfigs)" in caplog.text
        lose_a_removal(guarded, topics["orders"], 2)
        copy.run()
        assert ids(copy, "orders") == [1, 2, 3, 9]
        guarded.allow(ACLOperation.DESCRIBE_CONFIGS)
        copy.run()
        lose_a_removal(guarded, topics["orders"], 3)
        assert stopped(copy)[0] in MISSED


# ------------------------------------------------------------ the next step


def test_a_table_of_topics_is_not_copied_again_by_itself(tmp_path: Path, kafka: KafkaBroker) -> None:
    """So the next step of RPL-3989 and RPL-3990 is a reset, or a pipeline of its own."""
    with topics_of(kafka, "orders") as topics:
        kafka.alter_topic(topics["orders"], **CLEANED, delete_retention_ms=SOON)
        kafka.produce(topics["orders"], rows([1, 2, 3]))
        copy = copy_of(tmp_path, kafka, topics, distributed=False)
        copy.run()
        lose_a_removal(kafka, topics["orders"], 2)
        assert stopped(copy)[0] in MISSED
        assert copy.ask("resync", "orders") == "RPL-1222"


def test_a_table_whose_removals_are_gone_is_filled_by_a_pipeline_of_its_own(tmp_path: Path, kafka: KafkaBroker) -> None:
    with topics_of(kafka, "orders", "others") as topics:
        kafka.alter_topic(topics["orders"], **CLEANED, delete_retention_ms=SOON)
        for topic in topics.values():
            kafka.produce(topic, rows([1, 2, 3]))
        copy = copy_of(tmp_path, kafka, topics, distributed=False)
        copy.run()
        lose_a_removal(kafka, topics["orders"], 2)
        with pytest.raises(ReplicatorError, match=r"RPL-3990.*by a pipeline of its own"):
            copy.run()
        kafka.alter_topic(topics["orders"], **CLEANED, delete_retention_ms=LATER)
        copy.document["tables"] = [{"table": "orders", "exclude": True}]
        copy.source["topics"] = [topics["others"]]
        own = copy_of(tmp_path, kafka, {"orders": topics["orders"]}, distributed=False, name="own")
        for number in (5, 6, 7):
            for topic in topics.values():
                kafka.produce(topic, [*rows([number]), *removals([number - 1])])
            copy.run()
            own.run()
            assert ids(copy, "others") == [1, 2, 3, number]
            assert ids(own, "orders") == [1, 3, number, 9]
