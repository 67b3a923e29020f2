"""`replicator explain-row` finds one row on both sides, and says what differs without a value unless it is asked for."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from replicator_runtime.cli.commands.checks.explain_row import _verdict
from replicator_runtime.engine.verification.explained_row import ExplainedRow, _typed
from replicator_sdk import Column, Position, TableId, TableProgress, TableSchema
from replicator_sdk.datatype import UUID
from replicator_sdk.errors import NeedsUserError
from replicator_sdk.testing.in_memory.offset import MemoryOffset
from tests.end_to_end.replicator import Ended, Replicator
from tests.end_to_end.verify.damage import damage

if TYPE_CHECKING:
    from pathlib import Path


def run(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as database, database:
        for statement in statements:
            database.execute(statement)


@pytest.fixture(scope="module")
def replicator(tmp_path_factory: pytest.TempPathFactory) -> Replicator:
    """After a run that put a row aside, the source has changed some rows."""
    folder = tmp_path_factory.mktemp("explained")
    path = folder / "shop.db"
    run(
        path,
        "CREATE TABLE item (shop TEXT NOT NULL, number INTEGER NOT NULL, price NUMERIC(10,2), tag BLOB, PRIMARY KEY (shop, number))",
        "CREATE TABLE bag (price INTEGER)",
        "INSERT INTO item VALUES ('Rome, Via 1', 1, 10.5, x'00ff'), ('Rome, Via 1', 2, 20, NULL), ('Oslo', 3, 30, NULL)",
        "INSERT INTO item VALUES ('Oslo', 4, 'free', NULL), ('Oslo', 5, 50, NULL)",
    )
    made = Replicator(folder, ("sqlite", {"path": str(path)}), settings={"onDataError": "lane"})
    made.until_current()
    run(
        path,
        "UPDATE item SET price = 33 WHERE number = 3",
        "DELETE FROM item WHERE number = 5",
        "INSERT INTO item VALUES ('Oslo', 6, 60, NULL)",
    )
    return made


def explained(replicator: Replicator, *arguments: str) -> Ended:
    return replicator.start_command("explain-row", str(replicator.pipeline), *arguments).wait()


@pytest.mark.parametrize(
    ("key", "verdict"),
    [
        ('{"shop": "Rome, Via 1", "number": 1}', "both sides have the row, with equal values"),
        ("shop=Oslo,number=4", "only the source has the row; no standard type holds its price"),
    ],
)
def test_a_row_is_found_on_both_sides_and_no_value_is_shown(replicator: Replicator, key: str, verdict: str) -> None:
    ended = explained(replicator, "item", key)
    assert ended.status == 0, ended.messages
    data = ended.envelope["data"]
    assert (data["verdict"], data["differing"], data["targetIsLate"]) == (verdict, [], True)
    assert "row" not in data["source"]
    assert "10.5" not in ended.messages
    assert data["target"]["batch"] is not None
    assert (data["deadLetter"] is not None) == ("number=4" in key)


def test_what_differs_is_named_and_values_are_shown_where_they_are_asked_for(replicator: Replicator) -> None:
    data: Any = explained(replicator, "main.item", "number=3,shop=Oslo", "--show-values").envelope["data"]
    assert (data["verdict"], data["differing"]) == ("both sides have the row; price differs", ["price"])
    assert (data["source"]["row"]["price"], data["target"]["row"]["price"]) == ("33.00", "30.00")


def test_a_row_that_is_not_late_and_differs_is_an_error_with_a_next_step(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    run(path, "CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT)", "INSERT INTO item VALUES (1, 'a'), (2, 'b')")
    run(path, "CREATE TABLE other (id INTEGER PRIMARY KEY)")
    made = Replicator(tmp_path, ("sqlite", {"path": str(path)}))
    made.until_current()
    run(path, "UPDATE item SET name = 'c' WHERE id = 2")
    made.until_current()
    damage(made.lake / "main" / "item", ["DELETE FROM {} WHERE id = 1"])
    run(path, "INSERT INTO other VALUES (1)")  # the table's own last commit is older than the log then
    made.until_current()
    ended = explained(made, "item", "id=1")
    assert (ended.status, ended.error["code"]) == (5, "RPL-5031"), ended.messages
    assert ended.envelope["data"]["verdict"] == "only the source has the row"
    assert "replicator verify" in ended.error["hint"]


@pytest.mark.parametrize(
    "given",
    [
        "d3d94468-02a4-4259-755d-38e6d163e820",
        "D3D94468-02A4-4259-755D-38E6D163E820",
        "d3d9446802a44259755d38e6d163e820",
    ],
)
def test_a_uuid_is_the_same_however_it_is_written(given: str) -> None:
    schema = TableSchema(TableId("s", "t"), (Column("id", UUID, nullable=False),), ("id",))
    assert _typed(schema, {"id": given})["id"].as_py() == "d3d94468-02a4-4259-755d-38e6d163e820"
    with pytest.raises(NeedsUserError) as refused:
        _typed(schema, {"id": "d3d9446802a4"})
    assert refused.value.code == "RPL-1283"


def test_a_row_on_one_side_or_none_is_said_so() -> None:
    progress = TableProgress(1, 1, Position(MemoryOffset(1)))

    def verdict(source: Any, *targets: Any) -> str:
        return _verdict(ExplainedRow(TableId("s", "t"), "", source, (), "", targets, "1", progress, (), False, None))

    assert verdict(None) == "neither side has the row"
    assert verdict({"id": 1}) == "only the source has the row"
    assert verdict(None, {"id": 1}) == "only the target has the row"
    assert verdict({"id": 1}, {"id": 1}, {"id": 1}) == "the target has several rows of this key"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("itm", "number=3"), "RPL-1220"),
        (("bag", "price=3"), "RPL-1282"),
        (("item", "number=3"), "RPL-1283"),
        (("item", "shop=Oslo,number=x"), "RPL-1283"),
        (("item", "3"), "RPL-1283"),
        (("item", "{3"), "RPL-1283"),
        (("item", "[3]"), "RPL-1283"),
        (("item", '{"number": 3, "shop": "Oslo", "price": 1}'), "RPL-1283"),
    ],
)
def test_bad_input_is_one_line_with_a_next_step(replicator: Replicator, arguments: tuple[str, ...], code: str) -> None:
    ended = explained(replicator, *arguments)
    assert (ended.status, ended.error["code"]) == (3, code), ended.messages
    assert ended.error["hint"]
