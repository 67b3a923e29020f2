from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from replicator_state import ReplicatorDirectory
from tests.runtime.cli.conftest import Replicator

Judged = Callable[..., Path]


def data(output: str) -> Any:
    return json.loads(output)["data"]


def test_a_right_pipeline_is_valid(replicator: Replicator, judged: Judged) -> None:
    done = replicator("validate", judged())
    assert (done.exit_code, done.stdout) == (0, f"{judged()} is valid: judged to judging\n")


def test_a_wrong_pipeline_ends_with_3_and_names_every_problem(replicator: Replicator, judged: Judged) -> None:
    done = replicator("validate", judged(tabels=[], batch={"maxRow": 1}))
    assert done.exit_code == 3
    assert 'batch.maxRow: unknown key "maxRow" (did you mean "maxRows"?)' in done.stderr
    assert 'tabels: unknown key "tabels" (did you mean "tables"?)' in done.stderr
    assert done.stdout == ""


def test_problems_are_listed_in_json(replicator: Replicator, judged: Judged) -> None:
    done = replicator("validate", judged(tabels=[]), "--json")
    problems = json.loads(done.stdout)["error"]["problems"]
    assert [(p["code"], p["path"]) for p in problems] == [("RPL-1003", "tabels")]


@pytest.mark.parametrize("command", ["run", "validate", "assess", "tables"])
def test_a_pipeline_that_is_not_there_ends_with_3(replicator: Replicator, command: str) -> None:
    done = replicator(command, "/no/such/pipeline.json")
    assert done.exit_code == 3
    assert done.stderr.startswith("error RPL-1001: /no/such/pipeline.json cannot be read")


def test_a_wrong_option_ends_with_2(replicator: Replicator) -> None:
    assert replicator("run", "p.json", "--until-currant").exit_code == 2


def test_tables_lists_what_is_there_and_what_is_replicated(replicator: Replicator, sqlite_pipeline: Path) -> None:
    listed = {t["table"]: t["replicated"] for t in data(replicator("tables", sqlite_pipeline, "--json").stdout)}
    assert listed == {"orders": True, "old_orders": False, "\x1b[31mred": False}


def test_a_tables_name_cannot_steer_the_terminal(replicator: Replicator, sqlite_pipeline: Path) -> None:
    shown = replicator("tables", sqlite_pipeline).stdout
    assert "\x1b" not in shown
    assert "main.\\x1b[31mred" in shown


@pytest.mark.parametrize("pattern", ["old*", "main.old*", "old_orders"])
def test_tables_takes_a_pattern(replicator: Replicator, sqlite_pipeline: Path, pattern: str) -> None:
    assert [t["table"] for t in data(replicator("tables", sqlite_pipeline, pattern, "--json").stdout)] == ["old_orders"]


def test_a_pattern_that_no_table_fits_prints_no_heading_and_says_what_to_try(
    replicator: Replicator, sqlite_pipeline: Path
) -> None:
    done = replicator("tables", sqlite_pipeline, "nope*")
    assert (done.exit_code, done.stdout) == (0, "")
    assert "no table fits nope*: quote a pattern" in done.stderr


def test_tables_describes_columns_when_asked(replicator: Replicator, sqlite_pipeline: Path) -> None:
    (orders,) = data(replicator("tables", sqlite_pipeline, "orders", "--columns", "--json").stdout)
    assert [(c["name"], c["type"]) for c in orders["columns"]] == [("id", "int64"), ("total", "decimal(8,2)")]
    assert orders["primaryKey"] == ["id"]
    assert "DECIMAL(8,2)" in replicator("tables", sqlite_pipeline, "orders", "--columns").stdout


def test_tables_shows_rows_when_asked_with_texts_that_are_cut(replicator: Replicator, sqlite_pipeline: Path) -> None:
    document = json.loads(sqlite_pipeline.read_text())
    path = document["stages"][0]["plugin"]["properties"]["path"]
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE notes (id INTEGER PRIMARY KEY, body TEXT, bytes BLOB, at TIMESTAMP)")
        database.execute("INSERT INTO notes VALUES (1, ?, ?, '2026-01-02 03:04:05')", ("x" * 300, b"\x01\x02"))
        database.executemany("INSERT INTO notes VALUES (?, NULL, NULL, NULL)", [(n,) for n in range(2, 60)])
    database.close()
    (notes,) = data(replicator("tables", sqlite_pipeline, "notes", "--rows", "50", "--json").stdout)
    sample = notes["sample"]
    assert sample["columns"] == ["id", "body", "bytes", "at"]
    assert sample["rows"][0] == ["1", "x" * 200, "0x0102", "2026-01-02T03:04:05"]
    assert sample["rows"][1] == ["2", None, None, None]
    assert (len(sample["rows"]), sample["cut"]) == (50, [[0, 1]])
    assert "2026-01-02T03:04:05" in replicator("tables", sqlite_pipeline, "notes", "--rows", "1").stdout
    assert "sample" not in data(replicator("tables", sqlite_pipeline, "notes", "--json").stdout)[0]


def test_an_assessment_without_errors_ends_with_0(replicator: Replicator, judged: Judged) -> None:
    done = replicator("assess", judged({"at": "source", "name": "slow", "severity": "WARNING"}))
    assert done.exit_code == 0
    assert "WARNING source: what [slow]" in done.stdout
    assert "Next: `replicator run " in done.output


@pytest.mark.parametrize("at", ["source", "target", "source.orders", "target.items"])
def test_an_error_found_anywhere_ends_with_3_and_shows_the_fix(replicator: Replicator, judged: Judged, at: str) -> None:
    done = replicator("assess", judged({"at": at, "name": "bad", "severity": "ERROR", "fix": "ALTER\nSYSTEM"}))
    assert done.exit_code == 3
    assert "error RPL-1202: the assessment found 1 error" in done.stderr
    assert "`replicator run " not in done.output
    assert "run:    ALTER\n                SYSTEM" in done.stdout


def test_columns_are_shown_from_source_to_target_with_the_worse_word(replicator: Replicator, judged: Judged) -> None:
    tables = data(replicator("assess", judged(), "--json").stdout)["tables"]
    assert [t["table"] for t in tables] == ["items", "orders"]
    assert tables[0]["numColumnsPartiallySupported"] == 1
    assert tables[0]["columns"] == [
        {"sourceName": "id", "targetName": "id", "sourceType": "bigint", "targetType": "BIGINT", "support": "YES", "note": "cut"},
        {"sourceName": "note", "targetName": "note", "sourceType": "text", "targetType": "TEXT", "support": "PARTIAL", "note": "cut"},
    ]  # fmt: skip


def test_tables_and_columns_that_are_missing_are_named(replicator: Replicator, judged: Judged) -> None:
    tables = [{"table": "gone", "schema": "public"}, {"table": "old_*"}, {"table": "orders", "columns": ["id", "nte"]}]
    done = replicator("assess", judged(tables=tables))
    assert done.exit_code == 3
    assert "ERROR   source: no table is named public.gone" in done.stdout
    assert "WARNING source: no table is like old_*" in done.stdout
    assert 'public.orders.nte: the table has no column "nte"' in done.stdout


def test_the_table_that_a_misspelt_name_means_is_named(replicator: Replicator, judged: Judged) -> None:
    done = replicator("assess", judged(tables=[{"table": "ordrs"}, {"table": "orders"}, {"table": "ordrs*"}]))
    assert done.stdout.count("did you mean orders? correct the name") == 1


def test_columns_of_a_table_without_a_key_are_an_error(replicator: Replicator, sqlite_pipeline: Path) -> None:
    document = json.loads(sqlite_pipeline.read_text("utf-8"))
    document["tables"] = [{"table": "\x1b[31mred", "columns": ["x"]}]
    sqlite_pipeline.write_text(json.dumps(document), "utf-8")
    done = replicator("assess", sqlite_pipeline)
    assert done.exit_code == 3
    assert "columns cannot be selected of a table without a key [RPL-2004]" in done.stdout


def test_the_real_plugins_assess_without_spark(replicator: Replicator, sqlite_pipeline: Path) -> None:
    done = replicator("assess", sqlite_pipeline, "--json")
    assert done.exit_code == 0, done.stdout
    (orders,) = data(done.stdout)["tables"]
    assert [(c["sourceType"], c["targetType"]) for c in orders["columns"]][1] == ("DECIMAL(8,2)", "decimal(8,2)")


def test_what_both_sides_find_of_a_table_is_reported_once(replicator: Replicator, sqlite_pipeline: Path) -> None:
    document = json.loads(sqlite_pipeline.read_text("utf-8"))
    document["tables"] = [{"table": "\x1b[31mred"}]
    sqlite_pipeline.write_text(json.dumps(document), "utf-8")
    (table,) = data(replicator("assess", sqlite_pipeline, "--json").stdout)["tables"]
    (finding,) = [f for f in table["findings"] if f["name"] == "no_key"]
    assert "an interrupted snapshot starts from scratch; " in finding["impact"]


def test_no_heading_of_tables_is_printed_when_the_source_is_away(replicator: Replicator, judged: Judged) -> None:
    done = replicator("assess", judged({"at": "down"}))
    assert "TABLE" not in done.stdout


def test_a_selection_that_matches_nothing_is_an_error(replicator: Replicator, judged: Judged) -> None:
    done = replicator("assess", judged(tables=[{"table": "old_*"}]))
    assert done.exit_code == 3
    assert "no table is selected [RPL-2002]" in done.stdout


def test_a_source_that_is_away_is_a_finding_and_the_target_is_assessed_all_the_same(
    replicator: Replicator, judged: Judged
) -> None:
    found = data(
        replicator("assess", judged({"at": "down"}, {"at": "target", "name": "t", "severity": "INFO"}), "--json").stdout
    )
    assert [(f["code"], f["severity"]) for f in found["source"]] == [("TST-0001", "ERROR")]
    assert [f["name"] for f in found["target"]] == ["t"]


def test_a_table_that_cannot_be_read_does_not_hide_the_others(replicator: Replicator, judged: Judged) -> None:
    tables = data(replicator("assess", judged({"at": "locked"}), "--json").stdout)["tables"]
    assert [(t["table"], [f["code"] for f in t["findings"]]) for t in tables] == [
        ("items", ["TST-0002"]),
        ("orders", []),
    ]


def test_a_columns_warnings_can_be_kept_quiet_but_not_its_errors(replicator: Replicator, judged: Judged) -> None:
    quiet = [{"table": "orders", "columns": ["id", {"name": "note", "suppressWarning": True}]}]
    findings = [
        {"at": "target.orders", "name": "warned", "severity": "WARNING", "column": "note"},
        {"at": "target.orders", "name": "refused", "severity": "ERROR", "column": "note"},
    ]
    (orders,) = data(replicator("assess", judged(*findings, tables=quiet), "--json").stdout)["tables"]
    assert [f["name"] for f in orders["findings"]] == ["refused"]


def test_plugins_shows_the_settings_of_one(replicator: Replicator, judged: Judged) -> None:
    judged()
    (shown,) = data(replicator("plugins", "judged", "--json").stdout)
    assert {(s["key"], s["type"], s["default"]) for s in shown["settings"]} == {
        ("path", "text", '"x"'),
        ("password", "secret text", ""),
    }
    assert replicator("plugins", "judgd").exit_code == 3


@pytest.mark.parametrize("command", [("status",), ("offsets", "list"), ("offsets", "show")])
def test_a_replicator_that_never_ran_ends_with_3(replicator: Replicator, tmp_path: Path, command: tuple[str]) -> None:
    done = replicator(*command, "absent", "--base", tmp_path)
    assert done.exit_code == 3
    assert done.stderr.startswith('error RPL-1201: no state of a replicator "absent" in namespace "default"')


def test_a_name_cannot_lead_out_of_the_state_folder(replicator: Replicator, tmp_path: Path) -> None:
    done = replicator("status", "../../etc", "--base", tmp_path)
    assert done.exit_code == 3
    assert "RPL-7101" in done.stderr


def status_of(updated: datetime, phase: str) -> dict[str, Any]:
    return {
        "name": "shop",
        "namespace": "default",
        "generation": 1,
        "updated": updated.isoformat(),
        "phase": phase,
        "sourceState": "FAILING",
        "sourceError": {"code": "RPL-4001", "message": "it is away", "hint": "start it"},
        "offset": "0/1",
        "sequenceNumber": 7,
        "lagSeconds": 1.5,
        "validThrough": "2026-11-01T10:00:00.000+00:00",
        "tables": [
            {
                "database": "d",
                "schema": "public",
                "table": "orders",
                "state": "FAILING",
                "rows": 3,
                "snapshotPercent": None,
                "lagSeconds": None,
                "error": {"code": "RPL-5001", "message": "too long", "hint": "widen"},
            }
        ],
    }


@pytest.mark.parametrize(
    ("age", "phase", "warned"),
    [(5, "streaming", False), (600, "streaming", True), (600, "done", False), (600, "failed", False)],
)
def test_status_warns_of_a_run_that_fell_silent_but_not_of_one_that_ended(
    replicator: Replicator, tmp_path: Path, age: int, phase: str, warned: bool
) -> None:
    updated = datetime.now(UTC) - timedelta(seconds=age)
    ReplicatorDirectory(str(tmp_path), "default", "shop").states().put_status(status_of(updated, phase))
    done = replicator("status", "shop", "--base", tmp_path)
    assert done.exit_code == 0
    assert bool(re.search(r"no process has written this for 6\d\d s", done.stderr)) is warned
    assert "RPL-4001: it is away. Next: start it" in done.stdout
    assert "up to 2026-11-01T10:00:00.000+00:00" in done.stdout
    assert "public.orders: RPL-5001: too long. Next: widen" in done.stdout


def test_status_names_an_unreadable_state_file(replicator: Replicator, tmp_path: Path) -> None:
    directory = ReplicatorDirectory(str(tmp_path), "default", "shop")
    directory.states().put_status({"name": "shop"})
    (tmp_path / "default" / "shop" / "1" / "state.json").write_text("{", "utf-8")
    done = replicator("status", "shop", "--base", tmp_path)
    assert (done.exit_code, "RPL-7122" in done.stderr) == (3, True)
