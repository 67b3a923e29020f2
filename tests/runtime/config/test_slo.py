"""The freshness objective: of the whole pipeline, and of single tables."""

from __future__ import annotations

from typing import Any

import pytest

from replicator_runtime.config.model import PipelineConfig
from replicator_runtime.config.selection import Selection
from replicator_runtime.config.validation import parse_model
from replicator_runtime.freshness.objective import Objective, Objectives
from replicator_sdk import TableId

ORDERS, LOGS = TableId("shop", "orders", "public"), TableId("shop", "logs", "public")
_STAGES = {
    "name": "shop",
    "stages": [
        {"name": "a", "plugin": {"name": "x", "type": "cdcSource"}},
        {"name": "b", "plugin": {"name": "y", "type": "cdcTarget"}},
    ],
    "connections": [{"from": "a", "to": "b"}],
}


def objectives(**settings: Any) -> Objectives:
    config, problems = parse_model(PipelineConfig, {**_STAGES, **settings})
    assert config is not None, problems
    return Objectives(config, Selection(config))


def problem(**settings: Any) -> str:
    config, problems = parse_model(PipelineConfig, {**_STAGES, **settings})
    assert config is None
    return "; ".join(map(str, problems))


def test_without_the_key_nothing_is_measured() -> None:
    assert objectives().is_set is False
    assert objectives().of_table(ORDERS) is None


def test_the_pipelines_objective_holds_for_each_table() -> None:
    found = objectives(slo={"percent": 99.9, "minutes": 2, "window": "7d"})
    assert found.is_set
    assert found.of_all == found.of_table(ORDERS) == Objective(99.9, 2.0, 7)
    assert objectives(slo={}).of_all == Objective(99.0, 5.0, 30)


def test_a_tables_entry_says_what_is_other_and_takes_it_out_with_zero_percent() -> None:
    tables = [
        {"table": "*"},
        {"table": "orders", "slo": {"minutes": 1}},
        {"table": "logs", "slo": {"percent": 0}},
    ]
    found = objectives(slo={"percent": 95, "minutes": 10}, tables=tables)
    assert found.of_table(ORDERS) == Objective(95.0, 1.0, 30)
    assert found.of_table(LOGS) is None
    assert found.of_table(TableId("shop", "others")) == Objective(95.0, 10.0, 30)


def test_a_table_may_have_an_objective_where_the_pipeline_has_none() -> None:
    found = objectives(tables=[{"table": "*"}, {"table": "orders", "slo": {"window": "1d"}}])
    assert found.is_set
    assert (found.of_table(ORDERS), found.of_table(LOGS)) == (Objective(99.0, 5.0, 1), None)


@pytest.mark.parametrize(
    ("slo", "said"),
    [
        ({"percent": 101}, "slo.percent"),
        ({"percent": 0}, "slo.percent"),
        ({"minutes": 0}, "slo.minutes"),
        ({"window": "12h"}, "is a number of days, such as 30d"),
        ({"window": "0d"}, "1 to 90 days"),
        ({"window": "91d"}, "1 to 90 days"),
        ({"hours": 1}, 'unknown key "hours"'),
    ],
)
def test_what_is_no_objective_is_refused(slo: dict[str, Any], said: str) -> None:
    assert said in problem(slo=slo)


def test_an_excluded_entry_has_no_objective() -> None:
    assert "no `slo`" in problem(tables=[{"table": "logs", "exclude": True, "slo": {}}])
