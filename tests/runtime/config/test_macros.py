from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from replicator_runtime.observability import redaction
from tests.runtime.config.conftest import Build, pipeline, problems_of

PROPERTIES = "stages[0].plugin.properties"


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was made known to redaction."""
    values: list[str] = []
    monkeypatch.setattr(redaction, "register_secret", values.append)
    return values


def path_of(build: Build, text: str) -> str:
    return str(build(pipeline({"path": text})).source.config.path)  # type: ignore[attr-defined]


def test_a_secret_comes_from_the_environment_first(
    build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, registered: list[str]
) -> None:
    monkeypatch.setenv("REPLICATOR_SECRETS_DIR", str(tmp_path))
    (tmp_path / "kms-key.1").write_text("from file\n", "utf-8")
    assert path_of(build, "${secure(kms-key.1)}") == "from file"
    monkeypatch.setenv("REPLICATOR_SECRET_KMS_KEY_1", "from environment")
    assert path_of(build, "${secure(kms-key.1)}") == "from environment"
    assert registered == ["from file", "from environment"]


def test_a_secret_comes_from_the_keyring_last(
    build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, registered: list[str]
) -> None:
    import keyring

    asked: list[tuple[str, str]] = []

    def get_password(service: str, name: str) -> str:
        asked.append((service, name))
        return "from keyring"

    monkeypatch.setenv("REPLICATOR_SECRETS_DIR", str(tmp_path))
    monkeypatch.setattr(keyring, "get_password", get_password)
    assert path_of(build, "${secure(db)}") == "from keyring"
    assert (asked, registered) == ([("replicator", "db")], ["from keyring"])


def test_a_missing_secret_says_where_it_was_looked_for(
    build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPLICATOR_SECRETS_DIR", str(tmp_path))
    found = problems_of(build, pipeline({"path": "/a", "password": "${secure(db)}"}))[f"{PROPERTIES}.password"]
    assert "${secure(db)}" in found
    for place in ("REPLICATOR_SECRET_DB", str(tmp_path / "db"), "keyring set replicator db"):
        assert place in found


def test_macros_are_parts_of_values_as_well(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKE", "lake")
    monkeypatch.setenv("PORT", "77")
    made = build(pipeline({"path": "/${env(LAKE)}/$${env(LAKE)}/${ env( LAKE ) }", "port": "${env(PORT)}"}))
    assert made.source.config.path == "/lake/${env(LAKE)}/lake"  # type: ignore[attr-defined]
    assert made.source.config.port == 77  # type: ignore[attr-defined]


def test_the_value_of_a_macro_is_not_searched_for_macros(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTER", "${env(HOME)}")
    assert path_of(build, "${env(OUTER)}") == "${env(HOME)}"


def test_a_files_text_comes_without_its_last_line_break(build: Build, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b" two\nlines \r\n")
    assert path_of(build, f"${{file({tmp_path}/secret)}}") == " two\nlines "


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("${env(NOT_THERE)}", "the environment has no NOT_THERE"),
        ("${file(relative)}", "not an absolute path"),
        ("${file(/no/such/file)}", "No such file"),
        ("${secur(x)}", "did you mean ${secure(x)}?"),
        ("${HOME}", "write ${secure(name)}"),
        ("a ${ b", "write ${secure(name)}"),
        ("${secure(../../etc/passwd)}", "no name of a secret"),
    ],
)
def test_a_macro_without_a_value_is_a_problem_with_its_path(build: Build, text: str, words: str) -> None:
    assert words in problems_of(build, pipeline({"path": text}))[f"{PROPERTIES}.path"]


def test_the_environment_may_be_anywhere_but_secrets_only_in_properties(
    build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BASE", "/base")
    assert build(pipeline(offsetBasePath="${env(BASE)}/x")).config.offset_base_path == "/base/x"
    for document in (
        pipeline(spark={"conf": {"spark.password": "${secure(db)}"}}),
        pipeline(spark={"conf": {"spark.password": "${file(/run/secrets/db)}"}}),
    ):
        assert "properties only" in problems_of(build, document)["spark.conf.spark.password"]


def test_secret_settings_are_registered_however_they_came(
    build: Build, monkeypatch: pytest.MonkeyPatch, registered: list[str]
) -> None:
    monkeypatch.setenv("PASSWORD", "by environment")
    build(pipeline({"path": "/a", "password": "${env(PASSWORD)}"}))
    build(pipeline({"path": "/a", "password": "in the file"}))
    assert registered == ["by environment", "in the file"]


def test_a_pipelines_settings_keep_the_reference_and_not_the_secret(
    build: Build, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("REPLICATOR_SECRET_DB", "hunter-22")
    with caplog.at_level(logging.DEBUG):
        made = build(pipeline({"path": "/a", "password": "${secure(db)}"}))
    shown: list[Any] = [made.config, made.config.model_dump_json(), made.source.config, made, caplog.text]
    assert "${secure(db)}" in made.config.model_dump_json()
    assert all("hunter-22" not in repr(value) for value in shown)
    assert made.source.config.password.get_secret_value() == "hunter-22"  # type: ignore[attr-defined]
