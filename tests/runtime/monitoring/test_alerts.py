"""The alerting rules, judged by Prometheus' own promtool with series made up minute by minute."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from replicator_runtime.exposition.catalogue import METRICS
from replicator_runtime.monitoring.alerts import ALERTS, rules
from replicator_runtime.monitoring.dashboard import queries
from tests.services.prometheus.programs import program

_SHOP = {"pipeline": "shop"}
_ITEM = {"pipeline": "shop", "table": "public.item"}
_WELL = {
    'replicator_build_info{pipeline="shop",version="1"}': "1x2000",
    'replicator_shown_timestamp_seconds{pipeline="shop"}': "0+60x2000",
    'replicator_phase{pipeline="shop",phase="streaming"}': "1x2000",
    'replicator_failing{pipeline="shop"}': "0x2000",
    'replicator_lag_seconds{pipeline="shop"}': "1x2000",
    'replicator_table_lag_seconds{pipeline="shop",table="public.item"}': "1x2000",
    'replicator_table_state{pipeline="shop",table="public.item",state="FAILING"}': "0x2000",
    'replicator_table_state{pipeline="shop",table="public.item",state="PAUSED"}': "0x2000",
    'replicator_changes_total{pipeline="shop",table="public.item",op="insert"}': "0+60x2000",
    'replicator_retries_total{pipeline="shop",table=""}': "0+0x2000",
    'replicator_target_rows{pipeline="shop",table="public.item"}': "1000000x2000",
    'replicator_target_deleted_rows{pipeline="shop",table="public.item"}': "190000x2000",
}
_HELD = 'replicator_changes_total{pipeline="shop",table="public.item",op="insert"}'
_LIMIT = 'replicator_source_held_limit_bytes{pipeline="shop"}'
_LAG = 'replicator_lag_seconds{pipeline="shop"}'
_DELETED = 'replicator_target_deleted_rows{pipeline="shop",table="public.item"}'
_STORED = 'replicator_target_rows{pipeline="shop",table="public.item"}'
_SHOWN = 'replicator_shown_timestamp_seconds{pipeline="shop"}'

# What is wrong from the twentieth minute on, the labels of the alert, and the minutes at which it does not fire yet and does.
_CASES: Mapping[str, tuple[dict[str, str], dict[str, str], int, int]] = {
    "ReplicatorRunFails": ({'replicator_failing{pipeline="shop"}': "0x19 1x80"}, _SHOP, 21, 22),
    "ReplicatorRunGone": ({'replicator_build_info{pipeline="shop",version="1"}': "1x19 _x80"}, _SHOP, 20, 28),
    "ReplicatorRunNeverWorks": (
        {
            'replicator_build_info{pipeline="shop",version="1"}': "1x19 " + "1 _ " * 40,  # every other minute: neither gone nor failing
            'replicator_phase{pipeline="shop",phase="streaming"}': "1x19 " + "0 _ " * 40,
        },
        _SHOP, 33, 36,
    ),
    "ReplicatorTableFails": (
        {'replicator_table_state{pipeline="shop",table="public.item",state="FAILING"}': "0x19 1x80"}, _ITEM, 24, 25,
    ),
    "ReplicatorTableLate": (
        {'replicator_table_lag_seconds{pipeline="shop",table="public.item"}': "1x19 0+60x80"}, _ITEM, 40, 41,
    ),
    "ReplicatorPipelineLate": (
        {'replicator_table_lag_seconds{pipeline="shop",table="public.item"}': "1x19 0+60x80",
        'replicator_table_lag_seconds{pipeline="shop",table="public.orders"}': "1x19 0+60x80"}, _SHOP, 40, 41,
    ),
    "ReplicatorStalled": (
        {'replicator_lag_seconds{pipeline="shop"}': "1x19 0+60x80", _HELD: "0+60x19 1140x80"}, _SHOP, 38, 41,
    ),
    "ReplicatorRetries": ({'replicator_retries_total{pipeline="shop",table=""}': "0x19 0+1x80"}, _SHOP, 29, 33),
    "ReplicatorTablePaused": (
        {'replicator_table_state{pipeline="shop",table="public.item",state="PAUSED"}': "0x19 1x1900"}, _ITEM, 1450, 1460,
    ),
    "ReplicatorSourceSilent": ({'replicator_source_silent_seconds{pipeline="shop"}': "1x19 0+60x80"}, _SHOP, 22, 23),
    "ReplicatorSourceLogEnds": (
        {'replicator_source_seconds_left{pipeline="shop"}': "90000x19 7200x80", _LIMIT: "80000x100"}, _SHOP, 24, 25,
    ),
    "ReplicatorObjectiveMissed": (
        {'replicator_slo_budget_minutes{pipeline="shop",table="public.item"}': "19-1x80"}, _ITEM, 19, 20,
    ),
    "ReplicatorDeleteDebt": ({_DELETED: "190000x19 400000x300"}, _SHOP, 199, 201),
}  # fmt: skip


def test_every_alert_is_tried() -> None:
    assert _CASES.keys() == {alert.name for alert in ALERTS}


@pytest.mark.parametrize("name", _CASES)
def test_an_alert_fires_after_its_time_and_no_other_does_before(name: str, tmp_path: Path) -> None:
    wrong, labels, quiet, late = _CASES[name]
    alert = next(alert for alert in ALERTS if alert.name == name)
    steps: list[dict[str, object]] = [
        {"alertname": name, "eval_time": "19m", "exp_alerts": []},
        {"alertname": name, "eval_time": f"{quiet}m", "exp_alerts": []},
        {"alertname": name, "eval_time": f"{late}m", "exp_alerts": [{"exp_labels": {"severity": alert.severity, **labels}}]},
    ]  # fmt: skip
    others: list[dict[str, object]] = [
        {"alertname": other.name, "eval_time": f"{minute}m", "exp_alerts": []}
        for other in ALERTS
        for minute in (1, 19)
        if other.name != name
    ]
    _judge(tmp_path, _WELL | wrong, steps + others)


@pytest.mark.parametrize(
    "of_item",
    [{_DELETED: "400000x100 200000x200"}, {_DELETED: "9000x300", _STORED: "10000x300"}, {_STORED: "_x300"}],
    ids=["compacted", "small", "rows not known"],
)
def test_delete_debt_that_maintenance_works_off_or_that_is_small_warns_no_one(
    of_item: dict[str, str], tmp_path: Path
) -> None:
    _judge(tmp_path, _WELL | of_item, [_is("ReplicatorDeleteDebt", minute) for minute in (90, 185, 290)])


def test_delete_debt_of_many_tables_is_one_alert(tmp_path: Path) -> None:
    other = {
        name.replace("item", "orders"): values for name, values in ((_DELETED, "600000x300"), (_STORED, "900000x300"))
    }
    _judge(tmp_path, _WELL | {_DELETED: "400000x300"} | other, [_is("ReplicatorDeleteDebt", 290, _SHOP)])


def test_log_that_ends_soon_after_a_short_retention_is_paged_once_half_of_it_is_over(tmp_path: Path) -> None:
    series = {
        'replicator_source_retention_seconds{pipeline="shop"}': "3600x100",
        'replicator_source_seconds_left{pipeline="shop"}': "3600x19 1700x80",
    }
    fires = {"exp_labels": {"severity": "page", **_SHOP}}
    steps: list[dict[str, object]] = [
        {"alertname": "ReplicatorSourceLogEnds", "eval_time": "18m", "exp_alerts": []},
        {"alertname": "ReplicatorSourceLogEnds", "eval_time": "26m", "exp_alerts": [fires]},
    ]
    _judge(tmp_path, _WELL | series, steps)


def test_no_alert_fires_while_all_is_well(tmp_path: Path) -> None:
    _judge(
        tmp_path,
        _WELL,
        [{"alertname": alert.name, "eval_time": f"{m}m", "exp_alerts": []} for alert in ALERTS for m in (1, 30, 1800)],
    )


def test_a_backlog_that_is_being_applied_is_late_and_not_stalled(tmp_path: Path) -> None:
    """Changes arrive all the time, so that the lag alone is no reason to wake a person."""
    late = {'replicator_lag_seconds{pipeline="shop"}': "3600x2000"}
    copied = {'replicator_snapshot_rows_total{pipeline="shop",table="public.item"}': "0+1000x2000", _HELD: "7x2000"}
    stalled: list[dict[str, object]] = [{"alertname": "ReplicatorStalled", "eval_time": "60m", "exp_alerts": []}]
    _judge(tmp_path, _WELL | late, stalled)
    _judge(tmp_path, _WELL | late | copied, stalled)


def test_a_paused_pipeline_is_not_stalled(tmp_path: Path) -> None:
    """An operator has paused it: `replicator pause`."""
    paused = {
        _LAG: "1x19 0+60x80",
        _HELD: "0+60x19 1140x80",
        'replicator_phase{pipeline="shop",phase="paused"}': "0x19 1x80",
    }
    _judge(tmp_path, _WELL | paused, [_is("ReplicatorStalled", 60)])


def _lags(late: int, of: int) -> dict[str, str]:
    """So many tables, of which some are late from the twentieth minute on."""
    values = {True: "1x19 0+60x80", False: "1x100"}
    return {
        f'replicator_table_lag_seconds{{pipeline="shop",table="public.t{n}"}}': values[n < late] for n in range(of)
    } | {'replicator_table_lag_seconds{pipeline="shop",table="public.item"}': "_x100"}


@pytest.mark.parametrize(
    ("late", "of", "paused", "is_one"),
    [(100, 100, False, True), (11, 100, False, True), (1, 1, True, True), (2, 2, False, True), (10, 100, False, False), (1, 1, False, False)],
)  # fmt: skip
def test_tables_that_are_late_together_are_one_alert(
    late: int, of: int, paused: bool, is_one: bool, tmp_path: Path
) -> None:
    phase = {'replicator_phase{pipeline="shop",phase="paused"}': f"0x19 {int(paused)}x80"}
    each: list[object] = [
        {"exp_labels": {"severity": "warning", "pipeline": "shop", "table": f"public.t{n}"}}
        for n in range(0 if is_one else late)
    ]
    tables: dict[str, object] = {"alertname": "ReplicatorTableLate", "eval_time": "45m", "exp_alerts": each}
    _judge(
        tmp_path,
        _WELL | _lags(late, of) | phase,
        [tables, _is("ReplicatorPipelineLate", 45, _SHOP if is_one else None)],
    )


@pytest.mark.parametrize(("tables", "fire"), [(10, 10), (100, 0)])
def test_many_missed_objectives_are_one_alert_of_the_pipeline(tables: int, fire: int, tmp_path: Path) -> None:
    budget = 'replicator_slo_budget_minutes{pipeline="shop",table="%s"}'
    left = {budget % "": "19-1x80", **{budget % f"t{number}": "19-1x80" for number in range(tables)}}
    names = ["", *(f"t{number}" for number in range(fire))]
    expected = [
        {"exp_labels": {"severity": "warning", "pipeline": "shop", **({"table": name} if name else {})}}
        for name in names
    ]
    _judge(
        tmp_path,
        _WELL | left,
        [{"alertname": "ReplicatorObjectiveMissed", "eval_time": "30m", "exp_alerts": expected}],
    )


def test_a_short_retention_is_no_alert_until_the_lag_grows(tmp_path: Path) -> None:
    """All of a retention of two hours is left while the replicator has everything, at night, too."""
    left = {'replicator_source_seconds_left{pipeline="shop"}': "7199x100"}
    late = {_LAG: "1x19 700x80"}
    _judge(tmp_path, _WELL | left, [_is("ReplicatorSourceLogEnds", 60)])
    _judge(
        tmp_path, _WELL | left | late, [_is("ReplicatorSourceLogEnds", 24), _is("ReplicatorSourceLogEnds", 25, _SHOP)]
    )


@pytest.mark.parametrize(("phase", "fires"), [("streaming", True), ("done", False), ("failed", False)])
def test_a_killed_run_whose_metrics_stay_in_their_file_is_gone(phase: str, fires: bool, tmp_path: Path) -> None:
    """The node exporter shows the file of a run that was killed for ever, as well as on its last day."""
    states = {
        f'replicator_phase{{pipeline="shop",phase="{one}"}}': f"{int(one == phase)}x100"
        for one in ("streaming", "done", "failed")
    }
    replaced = {_SHOWN: "0+60x20 1200x80"}
    gone = _is("ReplicatorRunGone", 29, _SHOP) if fires else _is("ReplicatorRunGone", 29)
    _judge(tmp_path, _WELL | states | replaced, [_is("ReplicatorRunGone", 20), gone])


def _is(alert: str, minute: int, labels: Mapping[str, str] | None = None) -> dict[str, object]:
    """That the alert fires at that minute with these labels, or does not fire."""
    severity = next(one.severity for one in ALERTS if one.name == alert)
    expected = [] if labels is None else [{"exp_labels": {"severity": severity, **labels}}]
    return {"alertname": alert, "eval_time": f"{minute}m", "exp_alerts": expected}


def test_alerts_and_dashboard_use_metrics_that_a_run_shows() -> None:
    shown = {metric.name for metric in METRICS}
    for expression in [*(alert.expression for alert in ALERTS), *queries()]:
        used = {re.sub("_(sum|count)$", "", name) for name in re.findall(r"replicator_\w+", expression)}
        assert used, expression
        assert used <= shown, expression


def test_prometheus_takes_the_settings_of_the_page_with_the_rules_beside_them(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "metrics.md").read_text("utf-8")
    [settings] = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    (tmp_path / "prometheus.yml").write_text(settings)
    (tmp_path / "replicator.rules.yml").write_text(rules())
    done = subprocess.run(
        [program("promtool"), "check", "config", "prometheus.yml"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(ALERTS)} rules found" in done.stdout


def test_the_runbook_of_an_alert_is_at_the_address_given() -> None:
    assert 'runbook_url: "https://wiki.example.com/r/replicator-run-fails.md"' in rules("https://wiki.example.com/r")


def _judge(folder: Path, series: Mapping[str, str], expected: list[dict[str, object]]) -> None:
    """Have promtool evaluate the rules over the series; annotations are not compared.

    Raises:
        AssertionError: An alert fires that should not, or the other way round.
    """
    plain = "\n".join(
        line for line in rules().splitlines() if not line.lstrip().startswith(("annotations", "summary", "runbook"))
    )
    (folder / "rules.yml").write_text(plain + "\n")
    longest = max(int(str(step["eval_time"]).rstrip("m")) for step in expected)
    test = {
        "rule_files": ["rules.yml"],
        "evaluation_interval": "10m" if longest > 1000 else "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": name, "values": values} for name, values in series.items()],
                "alert_rule_test": expected,
            }
        ],
    }
    (folder / "test.yml").write_text(json.dumps(test))
    done = subprocess.run(
        [program("promtool"), "test", "rules", "test.yml"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
