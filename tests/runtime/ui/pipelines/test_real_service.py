"""The pages of pipelines with the real service: stored states, requests that are carried out, a service that is killed."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from replicator_runtime.service.store.database import Database
from replicator_runtime.service.store.tables import Pipeline
from replicator_state import ReplicatorDirectory
from tests.runtime.service.operations.ran import IMAGE, run_once
from tests.runtime.ui.browser import Tab, tab
from tests.runtime.ui.pipelines import examples

SHOP = "/ns/default/pipelines/shop"
_START = 60.0
_MAIN = "import sys; sys.argv[0] = 'replicator'; from replicator_runtime.cli import main; main()"


@dataclass
class Served:
    """`replicator serve`, in a process of its own.

    Attributes:
        folder: Of its files.
        port: Where it listens, each time.
        python_path: By which it finds plugins.
    """

    folder: Path
    port: int
    python_path: str
    process: subprocess.Popen[str] | None = None

    @property
    def address(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        words = ["serve", "--port", str(self.port), "--auth", "none", "--store", f"sqlite:///{self.folder}/service.db"]
        self.process = subprocess.Popen(
            [sys.executable, "-c", _MAIN, *words, "--base-path", str(self.folder / "state"), "--log-level", "error"],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONPATH": self.python_path},
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline().strip() == self.address

    def end(self, how: signal.Signals) -> None:
        """End it by a signal."""
        assert self.process is not None
        self.process.send_signal(how)
        self.process.wait(_START)
        assert self.process.stdout is not None
        self.process.stdout.close()


def make_orders_fail(folder: Path) -> None:
    """Store what a run would have written of a table that fails."""
    directory = ReplicatorDirectory(str(folder / "state"), "default", "shop")
    status = directory.states().read_status()
    assert status is not None
    for table in status["tables"]:
        if table["table"] == "orders":
            table |= {"state": "FAILING", "error": examples.FAULT}
    lease = directory.acquire("a test")
    directory.states(lease).put_status(status)
    lease.release()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service with one pipeline, which has run and does not now."""
    folder = tmp_path_factory.mktemp("served")
    ran = run_once(folder)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        found = Served(folder, listener.getsockname()[1], ran.python_path)
    found.start()
    config = {**ran.config, "namespace": "default", "offsetBasePath": str(folder / "state")}
    now, database = datetime.now(UTC), Database(f"sqlite:///{folder}/service.db")
    with database.session() as session:
        row = Pipeline(namespace="default", name="shop", created=now, updated=now, config=json.dumps(config))
        session.add(row)
    database.close()
    yield found
    found.end(signal.SIGTERM)


def test_state_is_shown_and_shown_again_after_the_service_was_killed(browser: Browser, served: Served) -> None:
    with tab(browser, served.address) as opened:
        opened.open("/ns/default/pipelines")
        expect(opened.page.locator(".fleet-table tbody tr")).to_contain_text("Stopped")
        opened.page.get_by_role("link", name="shop").click()
        rows = opened.page.locator(".vtable-body .vrow")
        expect(rows).to_have_count(4)
        expect(rows.filter(has_text=IMAGE)).to_have_count(1)
        served.end(signal.SIGKILL)
        expect(opened.page.get_by_text("The service does not answer.")).to_be_visible()
        make_orders_fail(served.folder)
        served.start()
        expect(opened.page.get_by_text("The service does not answer.")).to_have_count(0)
        expect(rows.first).to_contain_text("RPL-5010")
        opened.page.get_by_role("button", name=f"main.{IMAGE}", exact=True).click()
        expect(opened.page.get_by_role("dialog")).to_contain_text(IMAGE)
        opened.check()


def asked_for(opened: Tab, action: str) -> str:
    """Ask for an action of `main.orders`; what the page shows of its outcome, once it has come."""
    opened.page.get_by_role("button", name="Actions for main.orders", exact=True).click()
    opened.page.get_by_role("menuitem", name=action).click()
    if action.endswith("…"):
        opened.page.get_by_role("dialog").locator("footer button").last.click()
    shown = opened.page.get_by_label("What was asked for").locator("li").first
    expect(shown).to_have_class("followed-done", timeout=_START * 1000)
    return shown.inner_text()


def test_request_is_carried_out_without_a_run_and_its_outcome_shown(browser: Browser, served: Served) -> None:
    with tab(browser, served.address) as opened:
        opened.open(SHOP)
        assert "main.orders" in asked_for(opened, "Pause…")
        opened.open(f"{SHOP}/activity")
        expect(opened.page.locator(".timeline > li").first).to_contain_text("table.pause")
        opened.check()
