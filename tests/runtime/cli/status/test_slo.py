"""`slo` and `status` show the ratio, what is left of the error budget, and the worst tables."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from replicator_runtime.freshness.history import History, Measured, save
from replicator_runtime.freshness.objective import Objective
from replicator_sdk import TableId
from replicator_state import ReplicatorDirectory
from tests.runtime.cli.conftest import Replicator
from tests.runtime.cli.test_commands import status_of

OBJECTIVE = Objective(99.0, 5.0, 30)
SLOW = TableId("shop", "slow", "public")


def measured(base: Path, tables: int = 2, broken_minutes: int = 60) -> None:
    """A replicator whose table `slow` was broken for so many minutes of the last two days."""
    directory = ReplicatorDirectory(str(base), "default", "shop")
    lease = directory.acquire("works")
    others = {TableId("shop", f"t{n}", "public"): Measured(OBJECTIVE, 0.0, replicates=True) for n in range(tables - 1)}
    history, now = History(), time.time()
    begins = now - 86_400 * 2
    for at in (begins, begins + 60 * broken_minutes, now):
        history.measure(at, OBJECTIVE, others | {SLOW: Measured(OBJECTIVE, 0.0, replicates=True)})
        if at == begins:
            history.tables[SLOW].fresh_until = at - 360
        else:
            for one in history.tables.values():
                one.fresh_until = now
    for table in others:  # fresh all the time
        history.tables[table].days = {day: (sum(c), 0) for day, c in history.tables[table].days.items()}
    save(history, directory.states(lease).scoped("runtime"), with_days=True)
    directory.states(lease).put_status(status_of(datetime.now(UTC), "streaming"))
    lease.release()


def slo(replicator: Replicator, base: Path, *arguments: str) -> dict[str, Any]:
    done = replicator("slo", "shop", "--base", base, "--json", *arguments)
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["schema"] == "replicator.slo/v1"
    data: dict[str, Any] = found["data"]
    return data


def test_slo_shows_the_percentage_the_budget_left_and_the_worst_tables_first(
    replicator: Replicator, tmp_path: Path
) -> None:
    measured(tmp_path, tables=40)
    found = slo(replicator, tmp_path)["slo"]
    assert (found["percent"], found["minutes"], found["window"], found["isMet"]) == (99.0, 5.0, "30d", True)
    assert 55 <= found["brokenMinutes"] <= 60
    assert found["budgetMinutesLeft"] == round(432.0 - found["brokenMinutes"], 1)
    assert (len(found["tables"]), found["tables"][0]["table"], found["tables"][1]["ratio"]) == (20, "slow", 1.0)
    assert len(slo(replicator, tmp_path, "--tables", "100")["slo"]["tables"]) == 40
    text = replicator("slo", "shop", "--base", tmp_path)
    assert "all tables fresh within 5 min for 99 % of 30 days" in text.stdout
    assert "of 432 min of the error budget left" in text.stdout
    assert text.stdout.splitlines()[4].startswith("public.slow")
    assert "20 more tables" in text.stderr


def test_a_broken_objective_is_said(replicator: Replicator, tmp_path: Path) -> None:
    measured(tmp_path, broken_minutes=500)
    assert slo(replicator, tmp_path)["slo"]["isMet"] is False
    assert "broken: " in replicator("status", "shop", "--base", tmp_path).stdout


def test_status_shows_the_pipelines_figures_and_the_tables_that_were_not_fresh(
    replicator: Replicator, tmp_path: Path
) -> None:
    measured(tmp_path, tables=40)
    shown = replicator("status", "shop", "--base", tmp_path).stdout
    assert "objective: all tables fresh within 5 min" in shown
    assert f"`replicator slo shop --base {tmp_path}` shows the tables" in shown
    assert "public.slow: fresh 9" in shown
    assert "public.t1: fresh" not in shown
    found = json.loads(replicator("status", "shop", "--base", tmp_path, "--json").stdout)["data"]["slo"]
    assert found["tables"][0]["table"] == "slow"
    assert len(found["tables"]) == 3


def test_without_an_objective_both_say_so(replicator: Replicator, tmp_path: Path) -> None:
    directory = ReplicatorDirectory(str(tmp_path), "default", "shop")
    lease = directory.acquire("works")
    directory.states(lease).put_status(status_of(datetime.now(UTC), "streaming"))
    lease.release()
    assert slo(replicator, tmp_path)["slo"] is None
    assert "key `slo`" in replicator("slo", "shop", "--base", tmp_path).stderr
    assert "objective" not in replicator("status", "shop", "--base", tmp_path).stdout
    assert json.loads(replicator("status", "shop", "--base", tmp_path, "--json").stdout)["data"]["slo"] is None


def test_of_an_unknown_replicator_it_says_where_it_looked(replicator: Replicator, tmp_path: Path) -> None:
    assert "RPL-1201" in replicator("slo", "other", "--base", tmp_path).stderr
