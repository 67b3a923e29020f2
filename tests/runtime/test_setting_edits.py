"""What follows from edited settings is said by an assessment, and logged by the next run, before it happens."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pytest
from structlog.testing import capture_logs

from replicator_runtime.assessment import assess_pipeline
from replicator_runtime.config.pipeline import build_pipeline
from replicator_runtime.plugin_host import PluginHost
from replicator_sdk.config import PluginConfig, Secret, SettingEdit
from replicator_sdk.discovery.assessment import Finding, Severity
from replicator_sdk.errors import HistoryLostError, NeedsUserError
from replicator_source_sqlite.plugin import SqliteSource
from tests.runtime.engine.in_memory_target import InMemoryTarget
from tests.runtime.engine.test_run import Host, Shop, fill, shop

__all__ = ["shop"]


class Settings(PluginConfig):
    """Of a target."""

    edits: ClassVar = {"path": SettingEdit("tables stop", "put it back", Severity.ERROR, "RPL-4101")}

    path: str = "here"
    size: int = 1
    password: Secret = Secret("")


class Target(InMemoryTarget):
    name: ClassVar[str] = "kept"
    config_type: ClassVar[type[PluginConfig]] = Settings


class OtherSource(SqliteSource):
    name: ClassVar[str] = "other"


class Hosts(Host):
    def source(self, name: str) -> type[SqliteSource]:
        return SqliteSource if name == "sqlite" else OtherSource

    def target(self, name: str) -> type[InMemoryTarget]:
        return Target


@pytest.fixture
def edited(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """A shop whose first run has ended."""
    monkeypatch.setattr("tests.runtime.engine.test_run.Host", Hosts)
    fill(shop)
    set_target(shop, password="a secret of ours")
    shop.run()
    return shop


def set_target(shop: Shop, **properties: Any) -> None:
    shop.document["stages"][1]["plugin"]["properties"] = properties


def findings(shop: Shop) -> list[tuple[str, Finding]]:
    found = assess_pipeline(build_pipeline(shop.document, host=Hosts()))  # type: ignore[arg-type]
    return found.all_findings()


def edits(shop: Shop) -> list[tuple[str, Finding]]:
    return [(place, finding) for place, finding in findings(shop) if finding.name == "setting_edited"]


def logged(shop: Shop) -> list[Any]:
    with capture_logs() as logs:
        shop.run()
    return [line for line in logs if line["event"] == "setting.edited"]


def test_an_edit_is_reported_before_the_run_and_logged_by_it_once(edited: Shop) -> None:
    assert edits(edited) == []
    set_target(edited, path="there", size=2, password="a secret of ours")
    (_, path), (_, size) = edits(edited)
    assert (path.severity, path.code) == (Severity.ERROR, "RPL-4101")
    assert path.description == '`path` of the target was "here" and is "there"'
    assert size.severity is Severity.INFO
    assert [line["log_level"] for line in logged(edited)] == ["warning", "info"]
    assert edits(edited) == []
    assert logged(edited) == []


def test_secrets_are_neither_stored_nor_compared(edited: Shop) -> None:
    state = Path(edited.document["offsetBasePath"])
    assert not any(b"a secret of ours" in path.read_bytes() for path in state.rglob("*") if path.is_file())
    set_target(edited, password="another secret")
    assert edits(edited) == []


def test_a_source_of_another_kind_is_refused_before_its_offset_is_read(edited: Shop) -> None:
    plugin = edited.document["stages"][0]["plugin"]
    plugin["name"] = "other"
    with pytest.raises(NeedsUserError, match=r"RPL-1211.*was sqlite and is other"):
        edited.run()
    assert "RPL-1211" in {finding.code for _, finding in findings(edited)}
    plugin["name"] = "sqlite"
    assert logged(edited) == []


def test_another_database_is_said_and_refused_and_stays_said(edited: Shop, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    other = Shop(tmp_path / "elsewhere")
    edited.document["stages"][0]["plugin"]["properties"]["path"] = str(other.path)
    for _ in range(2):
        ((place, finding),) = edits(edited)
        assert place == "source"
        assert "RPL-7140" in finding.impact
        with pytest.raises(HistoryLostError, match="RPL-7140"):
            edited.run()


def test_every_edit_that_a_plugin_names_is_one_of_its_settings() -> None:
    host, found = PluginHost(), 0
    for kind in ("postgres", "mysql", "kafka", "sqlite", "delta", "bigquery"):
        plugin = host.target(kind) if kind in {"delta", "bigquery"} else host.source(kind)
        config = plugin.config_type
        names = {field.alias for field in config.model_fields.values()}
        assert config.edits.keys() <= names
        found += len(config.edits)
    assert found > 30
