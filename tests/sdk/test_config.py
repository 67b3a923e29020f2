"""Typed plugin settings: camelCase outside, unknown keys refused, secrets never shown."""

from __future__ import annotations

import pytest
from pydantic import SecretStr, ValidationError

from replicator_sdk import PluginConfig, Secret


class Settings(PluginConfig):
    user_name: str
    password: Secret
    port: int = 5432


def test_settings_are_camel_case_outside_and_snake_case_inside() -> None:
    assert Settings.model_validate({"userName": "u", "password": "p"}).user_name == "u"
    assert Settings(user_name="u", password=SecretStr("p")).port == 5432


def test_unknown_keys_and_changes_are_refused() -> None:
    with pytest.raises(ValidationError, match="extra"):
        Settings.model_validate({"userName": "u", "password": "p", "usrName": "x"})
    with pytest.raises(ValidationError, match="frozen"):
        Settings.model_validate({"userName": "u", "password": "p"}).port = 1


def test_a_secret_is_in_no_text_of_settings_or_error() -> None:
    made = Settings.model_validate({"userName": "u", "password": "geheim-1"})
    assert "geheim" not in f"{made!r}{made}{made.model_dump_json()}"
    assert made.password.get_secret_value() == "geheim-1"
    with pytest.raises(ValidationError) as caught:
        Settings.model_validate({"userName": "u", "password": ["geheim-2"], "port": "geheim-3"})
    assert "geheim" not in str(caught.value)
