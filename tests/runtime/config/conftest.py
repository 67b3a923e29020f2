"""A pipeline over two small plugins, and ways to break it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from replicator_runtime.config import InvalidPipelineError, Pipeline, build_pipeline
from replicator_runtime.plugin_host import PluginHost
from tests.runtime.plugin_packages import SHOP_PLUGINS, install

_numbers = itertools.count()

Build = Callable[[dict[str, Any]], Pipeline]


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PluginHost:
    monkeypatch.syspath_prepend(str(tmp_path))
    return PluginHost(install(tmp_path, f"config-shop-{next(_numbers)}", SHOP_PLUGINS))


@pytest.fixture
def build(host: PluginHost) -> Build:
    return lambda document: build_pipeline(document, host=host)


def pipeline(source: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """A right pipeline with `source` as the source's properties and `more` at the top level."""
    return {
        "name": "shop",
        "stages": [
            {"name": "in", "plugin": {"name": "shop", "type": "cdcSource", "properties": source or {"path": "/a"}}},
            {"name": "out", "plugin": {"name": "shelf", "type": "cdcTarget"}},
        ],
        "connections": [{"from": "in", "to": "out"}],
        **more,
    }


def problems_of(build: Build, document: dict[str, Any]) -> dict[str, str]:
    """The problems of a wrong pipeline: JSON path → message and hint."""
    with pytest.raises(InvalidPipelineError) as error:
        build(document)
    return {p.path: f"{p.message} | {p.hint}" for p in error.value.problems}
