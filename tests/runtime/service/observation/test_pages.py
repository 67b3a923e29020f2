"""What is shown of a pipeline that has run: log lines, lineage, activity, tables of any name, by pages."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from ulid import ULID

from replicator_runtime.observability.log_reading import Wanted
from replicator_runtime.service.commands.runner import Envelope
from replicator_runtime.service.observation.log_pages import page_of_lines
from replicator_runtime.service.store.tables import AuditEntry
from replicator_state import ReplicatorDirectory
from tests.runtime.service.operations.ran import DOTTED, IMAGE, PIPELINE
from tests.runtime.service.services import Service
from tests.waits import until


def test_lineage_names_the_column_that_each_column_comes_from(shop: Service) -> None:
    tables = {one["table"]: one for one in shop.client.get(f"{PIPELINE}/lineage").json()}
    assert set(tables) == {"orders", "items", IMAGE, DOTTED}
    columns = [(one["source"], one["sourceType"], one["target"]) for one in tables[IMAGE]["columns"]]
    assert columns == [("id", "INTEGER", "id"), ("total", "DECIMAL(8,2)", "total")]


def test_lineage_that_several_ask_for_at_once_is_found_once(shop: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    lineage, asked, go_on = shop.context.lineage, [], threading.Event()

    def find(words: Sequence[str], *, timeout: float) -> Envelope:
        asked.append(Path(words[-1]).stem)
        go_on.wait(timeout)
        return Envelope(0, [{"table": asked[-1]}])

    monkeypatch.setattr(shop.context.commands, "run_module", find)
    monkeypatch.setattr(lineage, "_known", {})
    with ThreadPoolExecutor() as pool:
        found = [pool.submit(lineage.of, "default", "shop") for _ in range(4)]
        until(lambda: asked, "one of them asks")
        go_on.set()
        assert [one.result() for one in found] == [[{"table": "shop"}]] * 4
    assert asked == ["shop"]


def test_tables_are_paged_by_links(shop: Service) -> None:
    found: list[str] = []
    place = f"{PIPELINE}/tables?limit=3&sort=urgency"
    while place:
        answer = shop.client.get(place)
        found += [row["table"] for row in answer.json()]
        place = answer.links.get("next", {}).get("url", "")
    assert sorted(found) == sorted(["orders", "items", IMAGE, DOTTED])
    [row] = shop.client.get(f"{PIPELINE}/tables", params={"search": "ONERROR"}).json()
    assert row["table"] == IMAGE


def test_activity_has_requests_jobs_and_changes_in_the_order_of_their_times(shop: Service) -> None:
    requests = ReplicatorDirectory(shop.context.settings.base_path, "default", "shop").requests()
    requests.record("table.retry", {"tables": ["orders"]}, "main.orders is tried again", by="ann")
    job = shop.context.jobs.records.add(str(ULID()), "default", "shop", ["verify", "shop"], "bob")
    now = datetime.now(UTC) + timedelta(seconds=1)
    entry = {"namespace": "default", "by": "eve", "operation": "stopPipeline", "status": 202, "at": now}
    with shop.context.database.session() as session:
        session.add(AuditEntry(entry_id="1" * 26, path=f"{PIPELINE}/stop", **entry))
        session.add(AuditEntry(entry_id="2" * 26, path="/v1/contexts/default/pipelines/shop2/stop", **entry))
    first = shop.client.get(f"{PIPELINE}/activity?limit=2")
    second = shop.client.get(first.links["next"]["url"])
    found = [(one["kind"], one["by"], one["what"]) for one in [*first.json(), *second.json()]]
    assert found == [
        ("change", "eve", "stopPipeline"),
        ("job", "bob", "verify shop"),
        ("request", "ann", "table.retry"),
    ]
    assert first.json()[1]["id"] == job.job_id


def test_pages_of_activity_have_all_entries_of_one_moment(shop: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    moment = datetime(2026, 1, 1, 12, 0, 0, 4000, tzinfo=UTC)
    made = iter(ULID.from_bytes(ULID.from_datetime(moment).bytes[:6] + bytes([number]) * 10) for number in (1, 2, 3))
    requests = ReplicatorDirectory(shop.context.settings.base_path, "default", "shop").requests()
    with monkeypatch.context() as patch:
        patch.setattr("replicator_state.requests.request_folder.ULID", lambda: next(made))
        for _ in range(3):
            requests.record("table.retry", {"tables": ["orders"]}, "", by="ann")
    entry = {"namespace": "default", "by": "eve", "operation": "stopPipeline", "status": 202, "path": PIPELINE}
    with shop.context.database.session() as session:
        for number, late in enumerate((0, 0, 700, -1)):  # microseconds
            at = moment + timedelta(microseconds=late)
            session.add(AuditEntry(entry_id=f"{number}" * 26, at=at, **entry))
    found: list[str] = []
    place = f"{PIPELINE}/activity?limit=1"
    while place:
        answer = shop.client.get(place)
        found += [one["id"] for one in answer.json() if one["at"] < "2026-01-02"]
        place = answer.links.get("next", {}).get("url", "")
    assert len(found) == len(set(found)) == 7


def lines_of(count: int) -> bytes:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    lines: list[dict[str, Any]] = [
        {
            "ts": (moment + timedelta(seconds=number)).isoformat(),
            "level": "warning" if number % 10 == 0 else "info",
            "event": "table.copied",
            "table": f"shop.t{number % 3}",
        }
        for number in range(count)
    ]
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def test_log_lines_are_paged_backwards_and_chosen_by_level_table_and_text(tmp_path: Path) -> None:
    folder = ReplicatorDirectory(str(tmp_path), "default", "shop").logs()
    name = folder.begin("run", "r", datetime(2025, 12, 31, tzinfo=UTC))
    content = lines_of(100)
    folder.append(name, content, content)
    found: list[str] = []
    before = None
    while True:
        page, oldest = page_of_lines(folder, Wanted(), "", before, 30)
        found += [str(line["ts"]) for line in page]
        if oldest is None:
            break
        before = datetime.fromisoformat(oldest)
    assert found == sorted(found, reverse=True)
    assert len(set(found)) == 100
    warnings, _ = page_of_lines(folder, Wanted("t0", "warning"), "COPIED", None, 30)
    assert [(line["table"], line["level"]) for line in warnings] == [("shop.t0", "warning")] * 4
    assert page_of_lines(folder, Wanted(), "nothing", None, 30) == ([], None)
