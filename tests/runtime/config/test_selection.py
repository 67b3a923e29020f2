from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from replicator_runtime.config import PipelineConfig, Selection
from replicator_runtime.config.selection import entry_name, glob_matches, matched_by
from replicator_sdk import DDLOperation, DMLOperation, TableId
from tests.runtime.config.conftest import pipeline


def selection(*tables: dict[str, Any], **more: Any) -> Selection:
    return Selection(PipelineConfig.model_validate(pipeline(tables=list(tables), **more)))


ORDERS = TableId("shop", "orders", "public")


def test_everything_is_selected_when_nothing_is_named() -> None:
    chosen = selection().matches(ORDERS)
    assert chosen is not None
    assert (chosen.columns, chosen.dml_blacklist) == (None, frozenset())
    assert chosen.ddl_blacklist == {DDLOperation.DROP_DATABASE}


@pytest.mark.parametrize(
    ("entry", "matches"),
    [
        ({"table": "orders"}, True),
        ({"table": "ord*"}, True),
        ({"table": "o?ders"}, True),
        ({"table": "Orders"}, False),
        ({"table": "order"}, False),
        ({"table": "orders", "schema": "public", "database": "shop"}, True),
        ({"table": "orders", "schema": "sales"}, False),
        ({"table": "orders", "schema": "pub*"}, True),
        ({"table": "orders", "database": "other"}, False),
        ({"table": "[o]rders"}, False),
    ],
)
def test_an_entry_matches_by_the_parts_it_gives(entry: dict[str, Any], matches: bool) -> None:
    assert (selection(entry).matches(ORDERS) is not None) is matches


@given(st.text(max_size=12))
def test_a_name_always_matches_itself(name: str) -> None:
    assert glob_matches(name, name)


@given(st.text("ab*?", max_size=8), st.text("ab*", max_size=8))
def test_patterns_mean_what_the_same_regular_expression_means(pattern: str, name: str) -> None:
    expression = "".join({"*": ".*", "?": "."}.get(c, re.escape(c)) for c in pattern)
    expected = pattern == name or re.fullmatch(expression, name, re.DOTALL) is not None
    assert glob_matches(pattern, name) is expected


def test_a_pattern_of_many_stars_takes_no_exponential_time() -> None:
    assert not glob_matches("*a" * 50 + "b", "a" * 5000)


def test_an_entry_that_names_the_table_wins_over_a_pattern() -> None:
    chosen = selection({"table": "*"}, {"table": "orders", "columns": ["id", {"name": "total"}]}).matches(ORDERS)
    assert chosen is not None
    assert chosen.columns == ("id", "total")


def test_blacklists_of_pipeline_and_table_go_together() -> None:
    chosen = selection(
        {"table": "orders", "dmlBlacklist": ["DELETE"], "ddlBlacklist": ["DROP_TABLE"]}, dmlBlacklist=["UPDATE"]
    ).matches(ORDERS)
    assert chosen is not None
    assert chosen.dml_blacklist == {DMLOperation.DELETE, DMLOperation.UPDATE}
    assert chosen.ddl_blacklist == {DDLOperation.DROP_TABLE, DDLOperation.DROP_DATABASE}


def test_columns_may_be_kept_quiet_in_assessments() -> None:
    chosen = selection({"table": "orders", "columns": ["id", {"name": "x", "suppressWarning": True}]}).matches(ORDERS)
    assert chosen is not None
    assert chosen.quiet_columns == {"x"}


def test_entries_that_match_no_table_are_named() -> None:
    chosen = selection({"table": "orders"}, {"table": "gone", "schema": "public"}, {"table": "old_*"})
    assert [entry_name(entry) for entry in chosen.unmatched([ORDERS])] == ["public.gone", "old_*"]
    assert selection().unmatched([]) == []


SESSIONS = TableId("shop", "session_1", "public")
EXCLUDED = {"schema": "public", "table": "session_*", "exclude": True}


@pytest.mark.parametrize("others", [(), ({"table": "*"},), ({"table": "session_1"}, {"table": "orders"})])
def test_an_excluded_table_is_selected_by_no_other_entry(others: tuple[dict[str, Any], ...]) -> None:
    for entries in ((EXCLUDED, *others), (*others, EXCLUDED)):
        chosen = selection(*entries)
        stored = chosen.to_json()
        assert chosen.matches(SESSIONS) is None
        assert not chosen.selects(SESSIONS)
        assert not chosen.names(SESSIONS)
        assert not matched_by(stored, SESSIONS)
        assert chosen.selects(ORDERS)
        assert chosen.matches(ORDERS) is not None
        assert matched_by(stored, ORDERS)


def test_an_exclusion_that_matches_no_table_is_no_missing_table() -> None:
    chosen = selection({"table": "orders"}, EXCLUDED)
    assert chosen.unmatched([ORDERS]) == []
    assert [entry_name(entry) for entry in chosen.unmatched_exclusions([ORDERS])] == ["public.session_*"]
    assert chosen.unmatched_exclusions([ORDERS, SESSIONS]) == []


@pytest.mark.parametrize("more", [{"columns": ["id"]}, {"dmlBlacklist": ["DELETE"]}, {"ddlBlacklist": ["ALTER_TABLE"]}])
def test_an_exclusion_of_parts_of_a_table_is_refused(more: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="leaves whole tables out"):
        selection({**EXCLUDED, **more})
