"""A process killed while it replicates MySQL or MariaDB, structure and rows changing, ends equal once it is left alone.

The target needs no Spark. Each kill's recovery is the next kill's beginning, so a chain costs one run a kill.
"""

from __future__ import annotations

import random
import shutil
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.crash import places
from tests.crash.conftest import kill, killed
from tests.crash.kills import harms
from tests.end_to_end.mysql.database.pipeline import MysqlPipeline, make_mysql_pipeline
from tests.end_to_end.replicator import Replicator
from tests.services.mysql.server import MysqlDatabase

_ENTRY = (sys.executable, str(Path(__file__).with_name("mysql_entry.py")))


@pytest.fixture
def pipeline(mysql_and_mariadb: MysqlDatabase, tmp_path: Path, cellar_package: str) -> MysqlPipeline:
    return made(mysql_and_mariadb, tmp_path, cellar_package)


@pytest.fixture
def mysql_pipeline(mysql_database: MysqlDatabase, tmp_path: Path, cellar_package: str) -> MysqlPipeline:
    return made(mysql_database, tmp_path, cellar_package)


def made(database: MysqlDatabase, folder: Path, package: str) -> MysqlPipeline:
    """A pipeline that waits longer for what a kill left at the server to go away."""
    found = make_mysql_pipeline(database, folder / "pipeline", package)
    found.create()
    return found.with_settings(retries={"maxDurationSeconds": 20, "delaySeconds": 0.2})


def kill_at(pipeline: MysqlPipeline, point: str) -> None:
    """A run that dies at `point`."""
    killed(pipeline.replicator.start("--until-current", REPLICATOR_FAILPOINTS=f"{point}=kill"), point)


def restructure(pipeline: MysqlPipeline, number: int) -> None:
    """A change of structure between rows of the old and of the new one."""
    name, before = f"c{number}", f"c{number - 1}"
    changes: Sequence[Sequence[str]] = (
        (f"ALTER TABLE item ADD COLUMN {name} int NOT NULL DEFAULT {number} FIRST",),
        (f"ALTER TABLE item CHANGE COLUMN {before} {name} bigint AFTER id",),
        (f"ALTER TABLE item DROP COLUMN {before}", f"ALTER TABLE note ADD COLUMN {name} varchar(9) DEFAULT '{number}'"),
        (f"ALTER TABLE note DROP COLUMN {before}",),
    )
    pipeline.execute(
        f"INSERT INTO note (text) VALUES ('before {number}')", "UPDATE item SET name = 'old' WHERE id % 7 = 0"
    )
    pipeline.execute(*changes[number % len(changes)])
    pipeline.execute(
        f"INSERT INTO note (text) VALUES ('after {number}')", "UPDATE item SET name = 'new' WHERE id % 5 = 0"
    )


def change(pipeline: MysqlPipeline) -> None:
    """Rows of both tables, whatever columns they have."""
    pipeline.execute(
        "INSERT INTO item (id, name) SELECT max(id) + 1, 'new' FROM item",
        "DELETE FROM item WHERE id = (SELECT * FROM (SELECT min(id) FROM item) AS least)",
        "UPDATE item SET id = id + 100000 WHERE id % 11 = 0 AND id < 100000",
        "INSERT INTO note (text) VALUES ('twice'), ('twice')",
        "DELETE FROM note WHERE text = 'twice' LIMIT 1",
    )


def test_kills_at_every_named_place_while_it_starts_anew(pipeline: MysqlPipeline) -> None:
    """Rows and structure change between the kills, so that every next plan is another one.

    What is written when all tables are copied comes last.
    """
    last = (".status.", ".offset.")
    for number, point in enumerate(sorted(places.AT_THE_BEGINNING, key=lambda place: any(p in place for p in last))):
        kill_at(pipeline, point)
        change(pipeline)
        if number % 4 == 0:
            restructure(pipeline, number // 4)
    pipeline.assert_nothing_lost()


def test_kills_at_every_named_place_on_the_way(mysql_pipeline: MysqlPipeline) -> None:
    mysql_pipeline.assert_nothing_lost()
    for number, point in enumerate(places.ON_THE_WAY):
        change(mysql_pipeline)
        restructure(mysql_pipeline, number)
        kill_at(mysql_pipeline, point)
    mysql_pipeline.assert_nothing_lost()


def test_kills_at_random_times_while_structure_and_rows_change(pipeline: MysqlPipeline) -> None:
    chance = random.Random(4)
    with trade(pipeline):
        for _ in range(6):
            running = pipeline.replicator.start()
            time.sleep(chance.uniform(0.8, 2.5))
            kill(running)
    pipeline.assert_nothing_lost()


@contextmanager
def trade(pipeline: MysqlPipeline) -> Iterator[None]:
    """Change rows all the time and structure now and then."""
    stop, errors = threading.Event(), []

    def work() -> None:
        try:
            for number in range(10_000):
                if stop.wait(0.05):
                    return
                change(pipeline)
                if number % 8 == 0:
                    restructure(pipeline, number // 8)
        except BaseException as error:  # noqa: BLE001 - raised below
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(60)
    if errors:
        raise errors[0]


# ------------------------------------------------------------ twins: the same without a part of the recovery


def twin(pipeline: MysqlPipeline, broken: str, name: str = "twin") -> MysqlPipeline:
    """A copy of what a kill left, to go on from without a part of the recovery."""
    replicator = pipeline.replicator
    folder = replicator.folder.with_name(name)
    shutil.copytree(replicator.folder, folder)
    assert replicator.target is not None
    other: Replicator = replace(
        replicator, folder=folder, target=("cellar", {"path": str(folder / "cellar")}), command=(*_ENTRY, broken)
    )
    return replace(pipeline, replicator=other)


@pytest.fixture
def unhurried_pipeline(mysql_pipeline: MysqlPipeline) -> MysqlPipeline:
    """A pipeline whose runs save no offset before the ALTER that they are about to read, however slow the machine."""
    return mysql_pipeline.with_settings(batch={"maxIntervalSeconds": 10})


def test_without_going_back_in_the_schema_history_a_replay_is_decoded_with_a_later_structure(
    unhurried_pipeline: MysqlPipeline,
) -> None:
    """The run is killed behind an ALTER and before its offset: the rows before the ALTER are read again."""
    unhurried_pipeline.assert_nothing_lost()
    restructure(unhurried_pipeline, 0)
    kill_at(unhurried_pipeline, "engine.offset.before_save")
    harmed = twin(unhurried_pipeline, "rewind").replicator.run("--until-current", seconds=60)
    assert harmed.status != 0, harmed.messages
    assert harmed.error["code"] in {"RPL-3703", "RPL-3704"}, harmed.messages
    harms.append("rewind")
    unhurried_pipeline.assert_nothing_lost()


def test_without_a_kept_schema_history_later_rows_are_decoded_with_an_earlier_structure(
    unhurried_pipeline: MysqlPipeline,
) -> None:
    """The run is killed when the offset behind an ALTER is saved; rows of the new structure come later."""
    unhurried_pipeline.assert_nothing_lost()
    restructure(unhurried_pipeline, 0)
    other = twin(unhurried_pipeline, "history")
    for each in (unhurried_pipeline, other):
        kill_at(each, "engine.offset.after_save")
    change(unhurried_pipeline)
    harmed = other.replicator.run("--until-current", seconds=60)
    assert harmed.status != 0, harmed.messages
    harms.append("history")
    unhurried_pipeline.assert_nothing_lost()


def test_where_the_offset_is_saved_before_the_data_a_kill_loses_rows(mysql_pipeline: MysqlPipeline) -> None:
    mysql_pipeline.assert_nothing_lost()
    change(mysql_pipeline)
    other = twin(mysql_pipeline, "order")
    for each in (mysql_pipeline, other):
        kill_at(each, "engine.batch.gathered")
    other.replicator.until_current()
    assert "missing" in other.differences()
    harms.append("order")
    mysql_pipeline.assert_nothing_lost()


@pytest.mark.parametrize("broken", ["rewind", "history"])
def test_where_nothing_is_killed_the_broken_part_is_not_missed(broken: str, mysql_pipeline: MysqlPipeline) -> None:
    """What the twins see comes from the kills."""
    whole = replace(mysql_pipeline, replicator=replace(mysql_pipeline.replicator, command=(*_ENTRY, broken)))
    running = whole.replicator.start()
    running.said("streaming", 60)
    restructure(whole, 0)
    change(whole)
    deadline = time.monotonic() + 30
    while whole.differences() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert running.stop().status in {0, 143}
    whole.assert_equal()
