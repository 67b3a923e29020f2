"""The demonstration's end: the page on its pipeline, while the shop goes on working."""

from __future__ import annotations

import json
import signal
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from replicator_runtime.cli.commands.service import demo_page
from replicator_runtime.demo.shop import make_shop
from replicator_runtime.demo.workload import Workload
from tests.runtime.cli.service.scripted import Answer, Scripted, scripted_service

PIPELINES = "/v1/contexts/default/pipelines"


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A shop that an earlier workload has changed."""
    make_shop(tmp_path / "shop.db")
    earlier = Workload(tmp_path / "shop.db", 0.1, pause_seconds=0.0)
    earlier.start()
    earlier.close()
    (tmp_path / "pipeline.json").write_text(json.dumps({"name": "shop"}))
    return tmp_path / "shop.db"


def orders(shop: Path) -> int:
    with closing(sqlite3.connect(shop)) as connection:
        [(count,)] = connection.execute("SELECT max(id) FROM orders")
        return int(count)


def test_the_pipeline_is_started_shown_and_stopped_while_the_shop_works(
    shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, shown = orders(shop), []

    def show(address: str) -> None:
        shown.append(address)
        deadline = threading.Event()
        for _ in range(600):
            if orders(shop) > before + 1:
                break
            deadline.wait(0.05)
        signal.raise_signal(signal.SIGINT)

    with scripted_service() as service:
        monkeypatch.setattr(demo_page, "_service", lambda _: at(service))
        service.answer(f"POST {PIPELINES}", Answer({"name": "shop"}, 201))
        service.answer(f"POST {PIPELINES}/shop/stop", Answer({"state": "running"}, 202))
        service.answer(f"GET {PIPELINES}/shop", Answer({"state": "running"}), Answer({"state": "stopped"}))
        demo_page.show_page(shop.parent / "pipeline.json", lambda _: None, show)
        asked = [(sent.method, sent.path) for sent in service.sent]
        assert service.sent[0].body == {"config": {"name": "shop"}, "start": True}
    assert shown == [f"{service.url}/ns/default/pipelines/shop"]
    assert asked[:2] == [("POST", PIPELINES), ("POST", f"{PIPELINES}/shop/stop")]
    assert orders(shop) > before + 1


@contextmanager
def at(service: Scripted) -> Iterator[str]:
    yield service.url
