"""One run with secrets in all its settings, and a row that its target refuses: neither is in what the run shows of itself."""

from __future__ import annotations

import io
import json
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

import pytest
from pydantic import SecretStr

from replicator_runtime.config import build_pipeline
from replicator_runtime.engine.run_state.progress import Progress
from replicator_runtime.engine.schedule import lineage, notifying
from replicator_runtime.engine.worker import run
from replicator_runtime.exposition.shown import Exposition
from replicator_runtime.notices import conditions, sender
from replicator_runtime.observability.logs import configure_logging
from replicator_sdk import PluginConfig, TableId
from replicator_sdk.errors import NeedsUserError
from replicator_source_sqlite.config import SqliteConfig
from replicator_source_sqlite.plugin import SqliteSource
from tests.runtime.engine import in_memory_target
from tests.runtime.engine.in_memory_target import InMemoryTarget
from tests.runtime.engine.test_run import Shop, fill, shop
from tests.runtime.lineage.receiver import Receiver, receiving
from tests.runtime.notices.webhook import Webhook, serving

__all__ = ["shop"]
SECRETS = {name: f"canary-secret-of-the-{name}-271828" for name in ("source", "target", "hook", "lineage")}
VALUE = "canary value of a row 314159"


class _Source(SqliteSource):
    class Config(SqliteConfig):
        password: SecretStr

    config_type: ClassVar[type[PluginConfig]] = Config


class _Target(InMemoryTarget):
    class Config(PluginConfig):
        password: SecretStr

    config_type: ClassVar[type[PluginConfig]] = Config


class _Host:
    def source(self, name: str) -> type[SqliteSource]:
        return _Source

    def target(self, name: str) -> type[InMemoryTarget]:
        return _Target


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as made:
        yield made


@pytest.fixture
def webhook(monkeypatch: pytest.MonkeyPatch) -> Iterator[Webhook]:
    monkeypatch.setattr(notifying, "_LOOK_SECONDS", 0.1)
    monkeypatch.setattr(lineage, "_LOOK_SECONDS", 0.1)
    for module in (notifying, lineage):  # a busy machine is to lose no last message
        monkeypatch.setattr(module, "_END_SECONDS", 60.0)
    monkeypatch.setattr(conditions, "SURE_SECONDS", 0.2)
    monkeypatch.setattr(sender, "_TWO_MESSAGES", 0.1)
    for name, secret in SECRETS.items():
        monkeypatch.setenv(f"REPLICATOR_SECRET_{name.upper()}", secret)
    with serving(Webhook()) as served:
        yield served


def test_neither_a_secret_nor_a_row_is_in_metrics_logs_lineage_notifications_or_the_status(
    shop: Shop, receiver: Receiver, webhook: Webhook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure_logging("info", "json", stream=(said := io.StringIO()))
    _with_secrets(shop, receiver, webhook)
    shop.document["metrics"] = {"address": "127.0.0.1:0", "textfile": str(tmp_path / "shop.prom")}
    fill(shop)
    shop.sql(f"INSERT INTO customers VALUES (900, '{VALUE}')")
    seen: dict[str, str] = {}
    with _running(shop) as scrape:
        webhook.until(lambda: _is_streaming(scrape()))
        in_memory_target.STORAGE.fault = _poisoned
        shop.sql(f"INSERT INTO customers VALUES (901, '{VALUE}')")
        webhook.until(lambda: any("a table fails" in title for title in webhook.titles))
        webhook.until(lambda: "replicator_failures_total{" in scrape())
        webhook.until(lambda: '"lastError": {' in json.dumps(shop.status()["tables"]))
        seen["metrics while it fails"] = scrape()
        seen["status while it fails"] = json.dumps(shop.status())
    monkeypatch.setattr(_Target, "create_consumer", _refuse)
    ended: list[BaseException | None] = []
    with _running(shop, ended):
        webhook.until(lambda: bool(ended))
    assert isinstance(ended[0], NeedsUserError)
    seen["metrics"] = (tmp_path / "shop.prom").read_text("utf-8")
    seen["status"] = json.dumps(shop.status())
    seen["standard error"] = said.getvalue()
    seen["notifications"] = json.dumps(webhook.messages)
    seen["lineage"] = json.dumps(receiver.events)
    seen["kept log"] = "".join(file.read_text("utf-8") for file in tmp_path.glob("state/**/logs/*.log"))
    assert "table.failing" in seen["kept log"]
    assert "ended with an error" in seen["notifications"]
    assert receiver.states()[-1] == "FAIL"
    everything = b"".join(file.read_bytes() for file in tmp_path.glob("state/**/*") if file.is_file())
    for place, text in seen.items():
        assert "canary" not in text, place
    for name, secret in SECRETS.items():
        assert secret.encode() not in everything, name
    assert receiver.headers["Authorization"] == f"Bearer {SECRETS['lineage']}", "who needs it has it"


def _with_secrets(shop: Shop, receiver: Receiver, webhook: Webhook) -> None:
    document = shop.document
    source, target = (stage["plugin"] for stage in document["stages"])
    source["properties"]["password"] = "${secure(source)}"
    target["properties"] = {"password": "${secure(target)}"}
    document["notifications"] = [{"url": f"json://127.0.0.1:{webhook.port}/" + "${secure(hook)}"}]
    document["lineage"] = {
        "transport": {**receiver.transport, "auth": {"type": "api_key", "apiKey": "${secure(lineage)}"}}
    }
    document["slo"] = {"percent": 99, "minutes": 5}


def _poisoned(step: str, table: TableId) -> None:
    """What a driver says that quotes what it was given; no plugin has understood it."""
    if step == "before" and table.table == "customers":
        raise ValueError(f"cannot write (901, '{VALUE}') as {SECRETS['target']} of {SECRETS['source']}")


def _refuse(*_: object) -> None:
    """An error that ends a run, of a plugin that quotes what it was configured with."""
    raise NeedsUserError(f"the target refuses {SECRETS['target']}", code="TST-0001", hint=f"not {SECRETS['source']}")


@contextmanager
def _running(shop: Shop, ended: list[BaseException | None] | None = None) -> Iterator[Callable[[], str]]:
    """A run that goes on within the block; gives what its metrics are, and what has ended it into `ended`."""
    pipeline, progress, stop = build_pipeline(shop.document, host=_Host()), Progress(), threading.Event()  # type: ignore[arg-type]
    exposition = Exposition(pipeline.config)
    error: BaseException | None = None

    def work() -> None:
        nonlocal error
        try:
            run(pipeline, stop=stop, progress=progress, began=exposition.began)
        except NeedsUserError as refused:
            error = refused
        if ended is not None:
            ended.append(error)

    def scrape() -> str:
        with urllib.request.urlopen(exposition.addresses[0], timeout=30) as answer:
            text: str = answer.read().decode()
            return text

    thread = threading.Thread(target=work, daemon=True)
    with exposition.shown(progress):
        thread.start()
        try:
            yield scrape
        finally:
            stop.set()
            thread.join(120)
    assert not thread.is_alive()


def _is_streaming(text: str) -> bool:
    return 'replicator_phase{phase="streaming",pipeline="shop"} 1.0' in text
