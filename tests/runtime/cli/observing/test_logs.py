"""`replicator logs` shows what runs logged, while they work and afterwards."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from replicator_runtime.observability.logs import configure_logging
from replicator_sdk.errors import ReplicatorError
from replicator_state import ReplicatorDirectory
from tests.runtime.engine.test_run import Shop, shop

if TYPE_CHECKING:
    from pathlib import Path

    from tests.runtime.cli.conftest import Replicator

__all__ = ["shop"]
RED = "\x1b[31mred\nforged"


def _line(event: str, at: datetime, **more: Any) -> str:
    return json.dumps({"ts": at.isoformat(), "level": "info", "event": event, **more}) + "\n"


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A replicator with lines of two runs."""
    directory, now = ReplicatorDirectory(str(tmp_path), "default", "shop"), datetime.now(UTC)
    (tmp_path / "default" / "shop" / "1").mkdir(parents=True)
    for hours, run_id in ((30, "first"), (1, "second")):
        at = now - timedelta(hours=hours)
        name = directory.logs().begin("run", run_id, at)
        lines = _line("run.began", at, run_id=run_id) + _line(
            "table.failing", at, level="error", table="main.orders", code="RPL-4001", error="no disk", hint="free it"
        )
        lines += _line("ddl.applied", at, table=f"main.{RED}")
        directory.logs().append(name, lines.encode(), lines.encode())
    return tmp_path


def test_the_newest_lines_are_shown_and_can_be_chosen(base: Path, replicator: Replicator) -> None:
    def events(*options: str) -> list[str]:
        done = replicator("logs", "shop", "--base", base, *options, "--json")
        assert done.exit_code == 0, done.output
        return [json.loads(line)["event"] for line in done.stdout.splitlines()]

    one = ["run.began", "table.failing", "ddl.applied"]
    assert events() == one * 2
    assert events("-n", "4") == ["ddl.applied", *one]
    assert events("--table", "orders") == events("--table", "main.orders") == ["table.failing"] * 2
    assert events("--level", "warning") == ["table.failing"] * 2
    assert events("--since", "2h") == one
    assert events("--since", "2h", "--level", "error", "-n", "0") == ["table.failing"]


def test_a_table_cannot_forge_lines_or_control_the_terminal(base: Path, replicator: Replicator) -> None:
    for options in ((), ("--json",)):
        done = replicator("logs", "shop", "--base", base, "--since", "2h", *options)
        assert "\x1b" not in done.stdout
        assert len(done.stdout.splitlines()) == 3


def test_a_line_for_people_has_its_time_level_event_and_the_rest(base: Path, replicator: Replicator) -> None:
    done = replicator("logs", "shop", "--base", base, "-n", "2")
    words = done.stdout.splitlines()[0].split(maxsplit=3)
    assert words[2:] == ["ERROR", 'table.failing table=main.orders code=RPL-4001 error="no disk" hint="free it"']


@pytest.mark.parametrize("options", [("--since", "yesterday"), ("--spark", "--table", "orders")])
def test_what_cannot_be_chosen_is_a_usage_error(base: Path, replicator: Replicator, options: tuple[str, ...]) -> None:
    assert replicator("logs", "shop", "--base", base, *options).exit_code == 2


def test_following_shows_what_comes_until_it_is_interrupted(
    base: Path, replicator: Replicator, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = ReplicatorDirectory(str(base), "default", "shop").logs()
    sleeps, name = iter(range(3)), folder.begin("run", "third", datetime.now(UTC))

    def sleep(_: float) -> None:
        """Between two looks a run writes."""
        if (number := next(sleeps, None)) is None:
            raise KeyboardInterrupt
        whole = "".join(_line(f"new.{n}", datetime.now(UTC), table="main.orders") for n in range(number + 1))
        folder.append(name, whole.encode(), whole.encode())

    monkeypatch.setattr("replicator_runtime.cli.commands.pipelines.logs.time", SimpleNamespace(sleep=sleep))
    done = replicator("logs", "shop", "--base", base, "-f", "-n", "1", "--table", "orders", "--json")
    assert done.exit_code == 130
    assert [json.loads(line)["event"] for line in done.stdout.splitlines()] == [
        "table.failing",
        "new.0",
        "new.1",
        "new.2",
    ]


def test_a_run_keeps_its_log_also_how_it_failed(shop: Shop, replicator: Replicator, tmp_path: Path) -> None:
    configure_logging("error", "console")
    shop.run()
    done = replicator("logs", "shop", "--base", tmp_path / "state", "--json")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [lines[0]["event"], lines[-1]["event"]] == ["run.began", "run.ended"]
    assert {"snapshot.end"} <= {line["event"] for line in lines if line.get("table") == "main.customers"}
    shop.document["tables"] = [{"database": "main", "table": "absent"}]
    with pytest.raises(ReplicatorError, match="absent"):
        shop.run()
    failed = json.loads(replicator("logs", "shop", "--base", tmp_path / "state", "--json", "-n", "1").stdout)
    assert (failed["event"], failed["level"]) == ("run.failed", "error")
    assert failed["run_id"] != lines[0]["run_id"]


def test_a_deleted_replicator_has_no_log(shop: Shop, replicator: Replicator, tmp_path: Path) -> None:
    configure_logging("error", "console")
    shop.run()
    directory = ReplicatorDirectory(str(tmp_path / "state"), "default", "shop")
    assert directory.logs().files("run")
    lease = directory.acquire("deletion")
    directory.deletion().begin(lease)
    directory.delete_values(lease)
    directory.finish_deletion(lease)
    assert not (tmp_path / "state" / "default" / "shop").exists()
