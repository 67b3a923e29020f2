"""After a run, an assessment says what the next run does: it follows renamed columns, or copies a table again."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from replicator_runtime.assessment import PipelineAssessment, assess_pipeline
from replicator_runtime.config.pipeline import build_pipeline
from replicator_sdk.discovery.assessment import Severity
from replicator_sdk.errors import HistoryLostError
from replicator_source_sqlite.offset import SqliteOffset
from replicator_source_sqlite.plugin import SqliteSource
from replicator_state import OffsetStore, SavedOffset
from tests.runtime.engine.test_run import Host, Shop, fill, shop

__all__ = ["shop"]

NARROW = [{"table": "customers", "columns": ["name"]}]


def assess(shop: Shop) -> PipelineAssessment:
    return assess_pipeline(build_pipeline(shop.document, host=Host()))  # type: ignore[arg-type]


def found(assessment: PipelineAssessment, table: str) -> dict[str, tuple[Severity, str]]:
    report = next(t for t in assessment.tables if t.table.table == table)
    return {f.name: (f.severity, f.description) for f in report.findings}


@pytest.mark.parametrize("runs_after_it", [0, 1])
def test_a_selected_column_that_was_renamed_since_is_no_error_as_the_run_follows_it(
    shop: Shop, runs_after_it: int
) -> None:
    shop.document["tables"] = NARROW
    fill(shop)
    shop.run()
    shop.sql("ALTER TABLE customers RENAME COLUMN name TO title")
    for _ in range(runs_after_it):
        shop.run()
    assessment = assess(shop)
    severity, text = found(assessment, "customers")["columns_changed"]
    assert severity is Severity.INFO
    assert "names name" in text
    assert assessment.count(Severity.ERROR) == 0
    shop.sql("UPDATE customers SET title = 'z' WHERE id = 4")
    shop.run()
    shop.assert_equal("customers")


def test_a_missing_column_is_an_error_before_the_first_run_and_where_the_selection_was_edited(shop: Shop) -> None:
    shop.document["tables"] = [{"table": "customers", "columns": ["nme"]}]
    assert found(assess(shop), "customers")["missing_column"][0] is Severity.ERROR
    shop.document["tables"] = [{"table": "customers"}]
    fill(shop)
    shop.run()
    shop.document["tables"] = [{"table": "customers", "columns": ["nme"]}]
    assert found(assess(shop), "customers")["missing_column"][0] is Severity.ERROR


def test_an_edit_that_has_a_table_copied_again_is_reported_before_the_run(shop: Shop) -> None:
    shop.document["tables"] = [{"table": "customers"}]
    fill(shop)
    shop.run()
    assert found(assess(shop), "customers") == {}
    shop.sql("ALTER TABLE customers ADD COLUMN city TEXT")
    shop.run()
    shop.document["tables"] = NARROW
    severity, text = found(assess(shop), "customers")["copied_again"]
    assert (severity, "other columns are selected" in text) == (Severity.INFO, True)
    shop.run()
    assert found(assess(shop), "customers") == {}


def test_an_edit_that_the_target_cannot_follow_is_an_error(shop: Shop) -> None:
    shop.document["tables"] = [{"table": "customers", "dmlBlacklist": ["DELETE"]}]
    fill(shop)
    shop.run()
    shop.document["tables"] = [{"table": "customers"}]
    assert "refused" in found(assess(shop), "customers")


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ({}, []),
        ({"ddlBlacklist": ["DROP_TABLE"]}, []),
        ({"ddlBlacklist": ["DROP_DATABASE"]}, ["DROP_DATABASE"]),
        ({"tables": [{"table": "*", "ddlBlacklist": ["CREATE_DATABASE"]}]}, ["CREATE_DATABASE"]),
    ],
)
def test_blacklisted_changes_that_the_source_never_emits_are_named(
    shop: Shop, settings: dict[str, object], wanted: list[str]
) -> None:
    fill(shop)
    shop.document.update(settings)
    named = [f.description for f in assess(shop).source if f.name == "unseen_ddl"]
    assert [f"`ddlBlacklist` names {name}, which the log of this source does not show" for name in wanted] == named


def test_a_log_that_no_run_can_go_on_in_is_an_error(shop: Shop, tmp_path: Path) -> None:
    fill(shop)
    shop.run()
    copy = tmp_path / "copy.db"
    shutil.copy(shop.path, copy)
    shop.sql("INSERT INTO customers VALUES (90, 'later')")
    shop.run()
    assert assess(shop).count(Severity.ERROR) == 0
    copy.replace(shop.path)
    (finding,) = (f for f in assess(shop).source if f.severity is Severity.ERROR)
    assert (finding.name, finding.code) == ("log", "RPL-3507")
    with pytest.raises(HistoryLostError, match="RPL-3507"):
        shop.run()


@pytest.mark.parametrize(("code", "is_found"), [("RPL-1", True), ("RPL-2", False)])
def test_where_a_run_at_work_has_gone_on_its_newer_offset_counts(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, code: str, is_found: bool
) -> None:
    """The log before it may be gone by then."""
    fill(shop)
    shop.run()

    def check_log(self: SqliteSource, offset: SqliteOffset, *, namespace: str, name: str) -> None:
        assert (namespace, name) == ("default", "shop")
        seen.append(offset)
        if len(seen) == 1 or is_found:
            raise HistoryLostError("it is gone", code=code, hint="copy again")

    seen: list[SqliteOffset] = []
    latest = OffsetStore.latest

    def went_on(self: OffsetStore) -> SavedOffset | None:
        saved = latest(self)
        assert saved is not None
        return replace(saved, commit_timestamp=saved.commit_timestamp + min(1, len(seen)))

    monkeypatch.setattr(OffsetStore, "latest", went_on)
    monkeypatch.setattr(SqliteSource, "check_log", check_log)
    assert [f.code for f in assess(shop).source if f.severity is Severity.ERROR] == [code] * is_found
    assert len(seen) == 2


def test_a_pipeline_that_never_ran_has_no_log_to_go_on_in(shop: Shop) -> None:
    fill(shop)
    assert assess(shop).count(Severity.ERROR) == 0
    assert not (shop.path.parent / "state").exists()


def test_an_exclusion_that_matches_no_table_is_said(shop: Shop) -> None:
    shop.document["tables"] = [{"table": "*"}, {"table": "note", "exclude": True}]
    (finding,) = (f for _, f in assess(shop).all_findings() if f.name == "needless_exclusion")
    assert finding.severity is Severity.WARNING
    assert "named note" in finding.description


def test_an_order_that_names_no_table_is_said(shop: Shop) -> None:
    fill(shop)
    tables = sorted(report.table.table for report in assess(shop).tables)
    shop.document["snapshot"] = {"order": [tables[0], "nowhere", f"main.{tables[0]}", "oth*"]}
    found = [f.description for _, f in assess(shop).all_findings() if f.name == "needless_order"]
    assert len(found) == 2
    assert '"nowhere"' in found[0]
    assert '"oth*"' in found[1]
