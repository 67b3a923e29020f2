"""`replicator verify` finds exactly what another program damaged, and nothing else, while source and target are written."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end.verify.shop import Shop, compared, counts, server_shop, sqlite_shop


@pytest.fixture(params=["sqlite", "postgres", "mysql"])
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Shop:
    return sqlite_shop(tmp_path) if request.param == "sqlite" else server_shop(request, request.param, tmp_path)


def test_damage_is_found_exactly_while_all_tables_are_written(shop: Shop) -> None:
    shop.begin()
    running = shop.replicator.start()
    shop.wait_until_replicating()
    shop.damage(
        "item",
        "DELETE FROM {} WHERE id IN (100, 101)",
        "UPDATE {} SET name = 'damaged' WHERE id BETWEEN 110 AND 112",
        "UPDATE {} SET price = NULL WHERE id = 120",
        "INSERT INTO {0} SELECT * FROM {0} WHERE id = 130",
    )
    shop.damage("visit", "DELETE FROM {} WHERE who = 9 AND page IS NULL")
    with shop.written():
        ended = shop.verify("--show-keys")
    found = compared(ended)
    assert ended.status == 5, ended.messages
    assert ended.error["code"] == "RPL-5030"
    assert {name: (table["result"], *counts(table)) for name, table in found.items()} == {
        "item": ("different", 2, 1, 4),
        "part": ("equal", 0, 0, 0),
        "visit": ("different", 13, 0, 0),
    }, ended.messages
    shown = {(one["key"]["id"], *one["is"]) for one in found["item"]["keys"]}
    assert shown == {(100, "missing"), (101, "missing"), (130, "surplus")} | {
        (key, "different") for key in (110, 111, 112, 120)
    }
    assert [one["key"] for one in found["visit"]["keys"]] == [{"who": 9, "page": None}]
    assert running.stop().status == 143


def test_without_a_run_nothing_is_written_and_what_is_only_late_is_no_difference(tmp_path: Path) -> None:
    shop = sqlite_shop(tmp_path)
    shop.begin()
    shop.replicator.until_current()
    before = _files(shop.replicator.folder, "state", "lake")
    ended = shop.verify()
    assert ended.status == 0, ended.messages
    assert ended.envelope["data"]["equal"]
    found = compared(ended)
    assert {name: (table["rowsSource"], table["rowsTarget"]) for name, table in found.items()} == {
        "item": (200, 200), "part": (200, 200), "visit": (200, 200),
    }  # fmt: skip
    assert _files(shop.replicator.folder, "state", "lake") == before
    shop.execute("UPDATE item SET name = 'later' WHERE id = 3")
    late = shop.verify("item", "part")
    assert late.status == 4
    assert late.error["code"] == "RPL-1367"
    assert compared(late)["item"]["error"]["code"] == "RPL-1367"
    assert compared(late)["part"]["result"] == "equal"


def _files(folder: Path, *parts: str) -> dict[str, float]:
    """The files, with their times; Hadoop's checksums of them left out."""
    found = (path for part in parts for path in (folder / part).rglob("*") if path.is_file())
    return {str(path): path.stat().st_mtime_ns for path in found if path.suffix != ".crc"}


def test_what_the_pipeline_leaves_out_and_marks_as_deleted_is_no_difference(tmp_path: Path) -> None:
    shop = sqlite_shop(tmp_path, tables=[{"table": "item", "dmlBlacklist": ["DELETE"], "columns": [{"name": "name"}]},
                                         {"table": "part"}, {"table": "visit", "dmlBlacklist": ["UPDATE"]}])  # fmt: skip
    shop.replicator.lake_settings = {"softDeletes": True}
    shop.begin()
    shop.replicator.until_current()
    shop.execute(
        "DELETE FROM item WHERE id < 5", "DELETE FROM part WHERE n < 5", "UPDATE item SET price = 0 WHERE id = 9"
    )
    shop.replicator.until_current()
    shop.damage("part", "UPDATE {} SET _is_deleted = true WHERE n = 100")
    ended = shop.verify()
    found = compared(ended)
    assert ended.status == 5, ended.messages
    assert (found["item"]["result"], found["item"]["dmlBlacklist"]) == ("equal", ["DELETE"])
    assert (found["item"]["rowsSource"], found["item"]["rowsTarget"]) == (195, 200)
    assert counts(found["part"]) == (1, 0, 0)
    assert found["visit"]["result"] == "not compared"
    assert found["visit"]["error"]["code"] == "RPL-1364"
