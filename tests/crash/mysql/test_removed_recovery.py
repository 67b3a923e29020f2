"""Kills do harm to a replicator of MySQL without a part of its recovery: the twins of the kills."""

from __future__ import annotations

import time

import pytest

from tests.crash.kills import harms
from tests.crash.mysql.pair import MysqlPair


@pytest.fixture
def slow_pair(mysql_pair: MysqlPair) -> MysqlPair:
    """A pair whose runs save no offset before the ALTER that they are about to read, however slow the machine."""
    return mysql_pair.with_interval(10)


def test_without_going_back_in_the_schema_history_a_replay_is_decoded_with_a_later_structure(
    slow_pair: MysqlPair,
) -> None:
    """The run is killed after an ALTER and before its offset: the rows before the ALTER are read again."""
    slow_pair.assert_nothing_lost()
    slow_pair.change_structure()
    slow_pair.kill_at("engine.offset.before_save")
    harmed = slow_pair.twin("rewind").pipeline.replicator.run("--until-current")
    assert harmed.status != 0, harmed.messages
    assert harmed.error["code"] in {"RPL-3703", "RPL-3704"}, harmed.messages
    harms.append("rewind")
    slow_pair.assert_recovered()


def test_without_a_kept_schema_history_later_rows_are_decoded_with_an_earlier_structure(slow_pair: MysqlPair) -> None:
    """The run is killed when the offset after an ALTER is saved; rows of the new structure come later."""
    slow_pair.assert_nothing_lost()
    slow_pair.change_structure()
    other = slow_pair.twin("history")
    for each in (slow_pair, other):
        each.kill_at("engine.offset.after_save")
    slow_pair.change_rows()
    harmed = other.pipeline.replicator.run("--until-current")
    assert harmed.status != 0, harmed.messages
    harms.append("history")
    slow_pair.assert_recovered()


def test_where_the_offset_is_saved_before_the_data_a_kill_loses_rows(mysql_pair: MysqlPair) -> None:
    mysql_pair.assert_nothing_lost()
    mysql_pair.change_rows()
    other = mysql_pair.twin("order")
    for each in (mysql_pair, other):
        each.kill_at("engine.batch.gathered")
    other.run_until_current()
    assert "missing" in other.differences()
    harms.append("order")
    mysql_pair.assert_recovered()


@pytest.mark.parametrize("removed", ["rewind", "history"])
def test_where_nothing_is_killed_the_removed_part_does_no_harm(removed: str, mysql_pair: MysqlPair) -> None:
    """What the twins see comes from the kills."""
    pair = mysql_pair.twin(removed)
    running = pair.pipeline.replicator.start()
    running.said("streaming")
    pair.change_structure()
    pair.change_rows()
    deadline = time.monotonic() + 180
    while pair.differences() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert running.stop().status in {0, 143}
    pair.pipeline.assert_equal()
