"""Which settings are taken for secrets: what a plugin declares, and else what they are called."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from replicator_runtime.service.catalogue.secret_settings import (
    refuse_literal_secrets,
    refuse_literal_secrets_of_plugin,
)
from replicator_runtime.service.problems import ProblemError
from tests.runtime.service.services import settings_in

_DECLARED = {"password": {"writeOnly": True}, "host": {}, "tokenName": {}, "key": {"writeOnly": True}}
_PLUGINS = [{"type": "cdcSource", "name": "postgres", "schema": {"properties": _DECLARED}}]
_CONTEXT: Any = SimpleNamespace(
    plugins=SimpleNamespace(all=lambda: _PLUGINS), settings=settings_in(Path("/nowhere/of/a/test"))
)


@pytest.mark.parametrize(
    ("properties", "place"),
    [
        ({"password": "x"}, "/password"),
        ({"password": 5}, "/password"),
        ({"password": {"a": 1}}, "/password"),
        ({"key": "x"}, "/key"),
        ({"host": "http://u:pw@h"}, "/host"),
        ({"apiToken": "t"}, "/apiToken"),
        ({"nested": {"a/b": [{"secret": "s"}]}}, "/nested/a~1b/0/secret"),
    ],
)
def test_a_secret_that_is_written_out_is_found(properties: dict[str, Any], place: str) -> None:
    plugin = {"type": "cdc-origin", "name": "postgres", "properties": properties}
    with pytest.raises(ProblemError) as of_plugin:
        refuse_literal_secrets_of_plugin(_CONTEXT, plugin)
    with pytest.raises(ProblemError) as of_config:
        refuse_literal_secrets(_CONTEXT, {"stages": [{"plugin": plugin}]})
    assert [one.pointer for one in of_plugin.value.errors] == [f"/properties{place}"]
    assert [one.pointer for one in of_config.value.errors] == [f"/stages/0/plugin/properties{place}"]


@pytest.mark.parametrize(
    "properties",
    [
        {"password": "${secure(a)}"},
        {"password": "${env(A)}"},
        {"password": ""},
        {"password": None},
        {"host": "h"},
        {"tokenName": "t"},
    ],
)
def test_a_reference_and_what_a_plugin_declares_as_no_secret_are_kept(properties: dict[str, Any]) -> None:
    refuse_literal_secrets_of_plugin(_CONTEXT, {"type": "cdcSource", "name": "postgres", "properties": properties})
