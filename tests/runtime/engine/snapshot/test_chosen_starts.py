"""`snapshot.from`: a pipeline that copies no rows begins at an earlier position of the log, with the columns of then."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from replicator_runtime.assessment import assess_pipeline
from replicator_runtime.config import build_pipeline
from replicator_runtime.config.problem import InvalidPipelineError
from replicator_runtime.engine.control.reset import reset
from replicator_sdk import failpoint
from replicator_sdk.errors import HistoryLostError, NeedsUserError, RetryableError
from replicator_source_sqlite.capture.changelog import last_change
from replicator_source_sqlite.capture.ddl_detection import synchronise
from replicator_source_sqlite.capture.pruning import prune
from replicator_source_sqlite.connection import connect
from replicator_source_sqlite.plugin import SqliteSource
from tests.follows import follows
from tests.runtime.engine import in_memory_target
from tests.runtime.engine.in_memory_target import TargetStorage
from tests.runtime.engine.planning.test_plans import plan
from tests.runtime.engine.snapshot.test_filtered_copies import ids, texts
from tests.runtime.engine.test_run import Host, Shop, change, fill, shop

__all__ = ["shop"]


@pytest.fixture
def captured(shop: Shop) -> Shop:
    """The shop, whose changes another replicator keeps, which has copied it as it was and does not run any more."""
    fill(shop)
    shop.document["name"] = "first"
    shop.run()
    shop.document["name"] = "shop"
    in_memory_target.STORAGE = TargetStorage()
    return shop


def end_of_log(shop: Shop) -> int:
    """The last change, after the other replicator has read up to it."""
    with connect(shop.path) as database:
        synchronise(database, 0)
        database.execute(
            "UPDATE _replicator_readers SET change = ? WHERE name GLOB '*first*'", (last_change(database),)
        )
        return last_change(database)


def begin_at(shop: Shop, **start: str) -> None:
    shop.document["snapshot"] = {"mode": "never", "from": start}


def rows(table: str) -> list[dict[str, Any]]:
    return sorted(in_memory_target.STORAGE.rows(table), key=json.dumps)


def test_tables_have_what_changed_after_the_offset_with_the_columns_of_then(captured: Shop) -> None:
    captured.sql(
        "ALTER TABLE customers ADD COLUMN city TEXT DEFAULT 'Rome'",
        "INSERT INTO customers VALUES (50, 'before', 'Oslo')",
    )
    begin_at(captured, offset=str(end_of_log(captured)))
    captured.sql(
        "INSERT INTO customers VALUES (60, 'after', 'Bonn')",
        "UPDATE customers SET name = 'changed' WHERE id = 3",
        "DELETE FROM customers WHERE id = 4",
        "INSERT INTO notes VALUES ('after')",
    )
    end_of_log(captured)  # as a reader that polls meanwhile
    captured.sql("ALTER TABLE customers RENAME COLUMN city TO place", "ALTER TABLE customers ADD COLUMN size INTEGER")
    captured.sql("INSERT INTO customers VALUES (61, 'later', 'Bern', 7)")
    assert plan(captured).steps[0].effect.startswith("starts at ")
    captured.run()
    for _ in range(2):
        assert rows("customers") == [
            {"id": 3, "name": "changed", "place": "Rome", "size": None},
            {"id": 60, "name": "after", "place": "Bonn", "size": None},
            {"id": 61, "name": "later", "place": "Bern", "size": 7},
        ]
        assert texts() == ["after"]
        captured.run()


def test_a_time_begins_with_the_first_change_made_then_or_later(captured: Shop) -> None:
    captured.sql("INSERT INTO customers VALUES (50, 'before')")
    with connect(captured.path) as database:
        database.execute("UPDATE _replicator_changes SET at = at - 3600000000")
    begin_at(captured, time=(datetime.now(UTC) - timedelta(minutes=30)).isoformat())
    captured.sql("INSERT INTO customers VALUES (60, 'after')")
    captured.run()
    assert ids() == [60]


class Clerk:
    """Changes customers at random, and notes which keys it touches."""

    def __init__(self, shop: Shop, chance: random.Random) -> None:
        self.touched: set[int] = set()
        self._shop, self._chance, self._names = shop, chance, ["name"]

    def act(self) -> None:
        if self._chance.random() < 0.2:
            self._alter()
        else:
            self._write(self._chance.randrange(60), self._chance.randrange(60))
        if self._chance.random() < 0.5:
            end_of_log(self._shop)

    def _write(self, one: int, other: int) -> None:
        name = self._chance.choice(self._names)
        statements = {
            f"INSERT OR REPLACE INTO customers (id, {name}) VALUES ({one}, 'i{other}')": {one},
            f"UPDATE customers SET {name} = 'u{other}' WHERE id = {one}": {one},
            f"DELETE FROM customers WHERE id = {one}": {one},
            f"UPDATE OR REPLACE customers SET id = {other} WHERE id = {one}": {one, other},
        }
        statement = self._chance.choice(list(statements))
        self._shop.sql(statement)
        self.touched |= statements[statement]

    def _alter(self) -> None:
        new, place = f"c{self._chance.randrange(10**9)}", self._chance.randrange(len(self._names))
        if self._chance.random() < 0.5:
            self._names.append(new)
            self._shop.sql(f"ALTER TABLE customers ADD COLUMN {new} TEXT DEFAULT 'd'")
        else:
            self._shop.sql(f"ALTER TABLE customers RENAME COLUMN {self._names[place]} TO {new}")
            self._names[place] = new


@pytest.mark.parametrize("seed", range(4))
def test_random_histories(captured: Shop, seed: int) -> None:
    """What was changed after the position is at the target as the source has it in the end, and nothing that was not touched."""
    clerk = Clerk(captured, random.Random(seed))
    for _ in range(30):
        clerk.act()
    begin_at(captured, offset=str(end_of_log(captured)))
    before = {row["id"]: list(row.values()) for row in captured.source_rows("customers")}
    clerk.touched.clear()
    for number in range(40):
        clerk.act()
        if number == 20:
            captured.run()
    captured.run()
    there = {row["id"]: row for row in captured.source_rows("customers")}
    found = {row["id"]: row for row in rows("customers")}
    assert {key: there[key] for key in found} == found
    assert set(found) <= clerk.touched
    changed = {key for key, row in there.items() if list(row.values())[: len(before.get(key, []))] != before.get(key)}
    assert changed <= set(found)


@pytest.mark.parametrize(
    "point", ["engine.start.prepared", "engine.start.planned", "engine.offset.before_save", "engine.snapshot.finished"]
)
def test_a_start_that_was_cut_off_begins_there_again(captured: Shop, point: str) -> None:
    begin_at(captured, offset=str(end_of_log(captured)))
    captured.document["retries"] = {"maxDurationSeconds": 0}
    captured.document["onTableError"] = "stop"
    captured.sql("INSERT INTO customers VALUES (60, 'after')")
    failpoint.arm(f"{point}=raise")
    with pytest.raises(RetryableError):
        captured.run()
    failpoint.arm("")
    for number in range(3):
        captured.sql(f"ALTER TABLE customers ADD COLUMN c{number} TEXT", f"INSERT INTO notes VALUES ('n{number}')")
        captured.sql(f"INSERT INTO customers (id, name) VALUES ({61 + number}, 'later')")
        captured.run()
    assert ids() == [60, 61, 62, 63]
    assert texts() == ["n0", "n1", "n2"]
    assert set(rows("customers")[0]) == {"id", "name", "c0", "c1", "c2"}


@pytest.mark.parametrize("point", ["engine.start.planned", "engine.offset.before_save"])
@pytest.mark.parametrize("mode", ["initial", "never"])
def test_a_start_that_was_cut_off_follows_the_pipeline_as_it_is_then(captured: Shop, point: str, mode: str) -> None:
    begin_at(captured, offset=str(end_of_log(captured)))
    captured.document["retries"] = {"maxDurationSeconds": 0}
    captured.sql("INSERT INTO customers VALUES (60, 'after')")
    failpoint.arm(f"{point}=raise")
    with pytest.raises(RetryableError):
        captured.run()
    failpoint.arm("")
    captured.sql("ALTER TABLE customers ADD COLUMN city TEXT")
    captured.document["snapshot"] = {"mode": mode}
    captured.run()
    captured.sql("INSERT INTO customers VALUES (61, 'later', 'Rome')", "INSERT INTO notes VALUES ('later')")
    captured.run()
    if mode == "initial":
        captured.assert_equal()
    else:
        assert (ids(), texts()) == ([61], ["later"])


@pytest.mark.parametrize("point", ["engine.start.planned", "engine.offset.before_save"])
def test_a_table_that_was_left_out_after_a_start_was_cut_off_begins_when_it_is_selected(
    captured: Shop, point: str
) -> None:
    begin_at(captured, offset=str(end_of_log(captured)))
    captured.document["retries"] = {"maxDurationSeconds": 0}
    failpoint.arm(f"{point}=raise")
    with pytest.raises(RetryableError):
        captured.run()
    failpoint.arm("")
    captured.document["tables"] = [{"table": "notes"}]
    captured.run()
    captured.sql("INSERT INTO customers VALUES (60, 'not selected')", "INSERT INTO notes VALUES ('after')")
    captured.run()
    del captured.document["tables"]
    captured.run()
    captured.sql("INSERT INTO customers VALUES (61, 'later')")
    captured.run()
    assert (ids(), texts()) == ([61], ["after"])


def refused(shop: Shop, code: str, kind: type[Exception] = NeedsUserError) -> str:
    """The hint of the refusal; nothing was begun, and the assessment says the same as far as it can know."""
    with pytest.raises(kind, match=code) as error:
        shop.run()
    assert in_memory_target.STORAGE.tables == {}
    assert not list(Path(shop.document["offsetBasePath"]).glob("default/shop/*/offset.*"))
    with connect(shop.path) as database:
        readers = [name for (name,) in database.execute("SELECT name FROM _replicator_readers")]
    assert readers == ["default/first/1"]
    return str(getattr(error.value, "hint", ""))


@pytest.mark.parametrize(
    ("start", "code"),
    [
        ({"offset": "mysql-bin.000001:4"}, "RPL-3515"),
        ({"offset": "-3"}, "RPL-3515"),
        ({"offset": "99999999"}, "RPL-3516"),
        ({"time": "2999-01-01T00:00:00Z"}, "RPL-3516"),
        ({"time": "2001-01-01T00:00:00Z"}, "RPL-3517"),
    ],
)
def test_what_is_no_position_of_the_log_is_refused(captured: Shop, start: dict[str, str], code: str) -> None:
    captured.sql("INSERT INTO notes VALUES ('x')")
    begin_at(captured, **start)
    found = [finding for finding in assess_pipeline(pipeline(captured)).source if finding.name == "start"]
    assert [finding.code for finding in found] == [code]
    with pytest.raises((NeedsUserError, HistoryLostError), match=code):
        plan(captured)
    assert "from" in refused(captured, code, (NeedsUserError, HistoryLostError))  # type: ignore[arg-type]


def pipeline(shop: Shop) -> Any:
    return build_pipeline(shop.document, host=Host())  # type: ignore[arg-type]


@follows("RPL-3517")
def test_a_position_whose_changes_were_removed_names_the_earliest_one(captured: Shop) -> None:
    change(captured)
    with connect(captured.path) as database:
        database.execute("UPDATE _replicator_readers SET change = 10")
        prune(database, 100)
    captured.sql("INSERT INTO customers VALUES (60, 'after')")
    begin_at(captured, offset="3")
    hint = refused(captured, "RPL-3517", HistoryLostError)
    begin_at(captured, offset=hint.partition('"offset": "')[2].partition('"')[0])
    captured.run()
    assert captured.document["snapshot"]["from"] == {"offset": "9"}
    assert 60 in ids()


@follows("RPL-2072", "RPL-3518")
@pytest.mark.parametrize(
    ("statements", "why"),
    [
        (["CREATE TABLE later (id INTEGER PRIMARY KEY)"], "no replicator has captured"),
        (["DROP TABLE notes", "CREATE TABLE notes (text TEXT)"], "."),
        (["ALTER TABLE notes RENAME TO later"], "had another name"),
    ],
)
def test_a_table_whose_changes_are_not_all_in_the_log_refuses_the_start(
    captured: Shop, statements: list[str], why: str
) -> None:
    begin_at(captured, offset=str(end_of_log(captured)))
    captured.sql("INSERT INTO customers VALUES (60, 'after')")
    captured.sql(*statements)
    hint = refused(captured, f"RPL-2072.*{why}.*RPL-3518")
    assert "leave it out of `tables`" in hint
    captured.document["tables"] = [{"table": "customers"}]
    captured.run()
    assert ids() == [60]


def test_columns_that_the_table_did_not_have_there_are_refused(captured: Shop) -> None:
    begin_at(captured, offset=str(end_of_log(captured)))
    captured.sql("ALTER TABLE customers ADD COLUMN city TEXT", "INSERT INTO customers VALUES (60, 'after', 'Rome')")
    captured.document["tables"] = [{"table": "customers", "columns": ["id", "city"]}]
    assert "earliest position" in refused(captured, "RPL-2072.*did not have all columns")
    captured.document["tables"] = [{"table": "customers", "columns": ["id", "name"]}]
    captured.run()
    assert rows("customers") == [{"id": 60, "name": "after"}]


def test_a_pipeline_that_has_begun_ignores_it_and_the_plan_says_so(captured: Shop) -> None:
    first = end_of_log(captured)
    captured.sql("INSERT INTO customers VALUES (60, 'after')")
    begin_at(captured, offset=str(end_of_log(captured)))
    captured.sql("INSERT INTO customers VALUES (61, 'later')")
    captured.run()
    begin_at(captured, offset=str(first))
    [step] = plan(captured).steps
    assert (step.subject, step.needs_approval, step.refused) == ("snapshot.from", False, False)
    assert "nothing" in step.effect
    assert "replicator reset" in step.effect
    captured.run()
    assert ids() == [61]
    assert plan(captured).steps == ()
    assert not [finding for finding in assess_pipeline(pipeline(captured)).source if finding.name == "start"]


def test_a_reset_begins_there_again_and_empties_nothing(captured: Shop) -> None:
    captured.document["stages"][0]["plugin"]["properties"]["keepChangesHours"] = 5
    begin_at(captured, offset=str(end_of_log(captured)))
    captured.sql("INSERT INTO customers VALUES (60, 'after')")
    captured.run()
    reset(pipeline(captured))
    with pytest.raises(NeedsUserError, match="RPL-2063"):
        captured.run()
    assert ids() == [60]


@pytest.mark.parametrize(
    ("snapshot", "able", "error"),
    [
        ({"mode": "never", "from": {"offset": "1"}}, {"time"}, "RPL-2071.*give `time`"),
        ({"mode": "never", "from": {"time": "2026-01-31T08:00:00Z"}}, set(), "RPL-2071.*remove `from`"),
        ({"mode": "initial", "from": {"offset": "1"}}, {"offset"}, "`from` is of"),
        ({"mode": "never", "from": {"offset": "1", "time": "2026-01-31T08:00:00Z"}}, {"offset"}, "either"),
        ({"mode": "never", "from": {"time": "2026-01-31T08:00:00"}}, {"time"}, "ISO 8601 with a zone"),
    ],
)
def test_what_the_pipeline_cannot_have_is_refused(
    shop: Shop, snapshot: dict[str, Any], able: set[str], error: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SqliteSource, "starts_from", frozenset(able))
    shop.document["snapshot"] = snapshot
    with pytest.raises(InvalidPipelineError, match=f"(?s){error}"):
        pipeline(shop)
