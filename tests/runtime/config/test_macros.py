from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from replicator_runtime.config.problem import InvalidPipelineError
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


def test_a_variable_that_is_named_as_a_secret_is_one_whichever_macro_asks_for_it(
    build: Build, monkeypatch: pytest.MonkeyPatch, registered: list[str]
) -> None:
    """A name is shown in folders, tables and logs."""
    monkeypatch.setenv("REPLICATOR_SECRET_DB", "hunter-22")
    for key in ("name", "namespace", "offsetBasePath"):
        with pytest.raises(InvalidPipelineError) as refused:
            build({**pipeline(), key: "x${env(REPLICATOR_SECRET_DB)}"})
        assert [p.path for p in refused.value.problems if "properties only" in p.message] == [key]
        assert "hunter" not in str(refused.value)
    assert registered == []
    assert path_of(build, "/${env(REPLICATOR_SECRET_DB)}") == "/hunter-22"
    assert registered == ["hunter-22"]


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


def test_a_service_gives_pipelines_no_variable_and_no_file_of_its_own(
    build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, registered: list[str]
) -> None:
    """Who writes a setting there may read what an error repeats of it."""
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "given").write_text("given text\n", "utf-8")
    (tmp_path / "key").write_text("the host's key", "utf-8")
    (tmp_path / "secrets" / "link").symlink_to(tmp_path / "key")
    monkeypatch.setenv("REPLICATOR_SECRETS_DIR", str(tmp_path / "secrets"))
    for name in ("AWS_SECRET_ACCESS_KEY", "REPLICATOR_SECRET_DB", "REPLICATOR_VAR_REGION"):
        monkeypatch.setenv(name, f"value of {name}")
    monkeypatch.setenv("REPLICATOR_FOR_SERVICE", "1")
    refused = ["env(AWS_SECRET_ACCESS_KEY)", "env(REPLICATOR_SECRET_DB)", f"file({tmp_path}/key)"]
    refused += [f"file({tmp_path}/secrets/../key)", f"file({tmp_path}/secrets/link)"]
    for macro in refused:
        found = problems_of(build, pipeline({"path": f"${{{macro}}}"}))
        assert "a service gives its pipelines" in found[f"{PROPERTIES}.path"], macro
    assert path_of(build, "${env(REPLICATOR_VAR_REGION)}") == "value of REPLICATOR_VAR_REGION"
    monkeypatch.setenv("REPLICATOR_SERVICE_SHARED_SECRETS", "1")
    assert path_of(build, f"${{file({tmp_path}/secrets/given)}}") == "given text"
    assert path_of(build, "${secure(db)}") == "value of REPLICATOR_SECRET_DB"
    assert registered == ["given text", "value of REPLICATOR_SECRET_DB"]
    monkeypatch.delenv("REPLICATOR_SECRETS_DIR")
    found = problems_of(build, pipeline({"path": f"${{file({tmp_path}/secrets/given)}}"}))
    assert "REPLICATOR_SECRETS_DIR" in found[f"{PROPERTIES}.path"]


def secrets_of(build: Build, monkeypatch: pytest.MonkeyPatch, namespace: str, *names: str) -> list[str]:
    """What `${secure()}` gives a namespace's pipeline in a service, for each name; `-` for nothing."""
    monkeypatch.setenv("REPLICATOR_FOR_SERVICE", "1")
    monkeypatch.setenv("REPLICATOR_SERVICE_NAMESPACE", namespace)
    found = []
    for name in names:
        try:
            found.append(path_of(build, f"${{secure({name})}}"))
        except InvalidPipelineError:
            found.append("-")
    return found


def test_a_namespace_has_its_own_secrets_and_those_of_none_only_where_they_are_shared(
    build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPLICATOR_SECRETS_DIR", str(tmp_path))
    (tmp_path / "team-a").mkdir()
    (tmp_path / "team-a" / "filed").write_text("filed for a\n", "utf-8")
    (tmp_path / "filed").write_text("filed for all\n", "utf-8")
    monkeypatch.setenv("REPLICATOR_SECRET_TEAM_A__DB", "of a")
    monkeypatch.setenv("REPLICATOR_SECRET_DB", "of all")
    assert secrets_of(build, monkeypatch, "team-a", "db", "filed") == ["of a", "filed for a"]
    assert secrets_of(build, monkeypatch, "team-b", "db", "filed") == ["-", "-"]
    assert secrets_of(build, monkeypatch, "", "db", "filed") == ["-", "-"]
    monkeypatch.setenv("REPLICATOR_SERVICE_SHARED_SECRETS", "1")
    assert secrets_of(build, monkeypatch, "team-a", "db", "filed") == ["of a", "filed for a"]
    assert secrets_of(build, monkeypatch, "team-b", "db", "filed") == ["of all", "filed for all"]


def test_no_name_and_no_namespace_reaches_the_secrets_of_another(
    build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Variables have neither small letters nor dashes, so `team-a` must not be taken for `team_a`, `Team-A` or a name's beginning."""
    monkeypatch.setenv("REPLICATOR_SECRETS_DIR", str(tmp_path))
    monkeypatch.setenv("REPLICATOR_SECRET_TEAM_A__DB", "of a")
    monkeypatch.setenv("REPLICATOR_SERVICE_SHARED_SECRETS", "1")
    for namespace in ("team_a", "Team-A", "team.a", "team"):
        assert secrets_of(build, monkeypatch, namespace, "db", "a__db", "team-a__db", "a.-db") == ["-"] * 4, namespace
    assert secrets_of(build, monkeypatch, "team-a", "db") == ["of a"]


def test_files_are_those_of_the_namespace_and_never_tokens_of_a_pod(
    build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPLICATOR_SECRETS_DIR", str(tmp_path))
    monkeypatch.setenv("REPLICATOR_FOR_SERVICE", "1")
    monkeypatch.setenv("REPLICATOR_SERVICE_SHARED_SECRETS", "1")
    tokens = [f"{one}/token" for one in ("kubernetes.io/serviceaccount", "eks.amazonaws.com/serviceaccount")]
    tokens.append("azure/tokens/azure-identity-token")
    for place in ("team-a/key", "team-b/key", "..2026_01/plain", *tokens):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_text(f"text of {place}", "utf-8")
    (tmp_path / "plain").symlink_to("..2026_01/plain")  # as Kubernetes mounts a secret
    for namespace in ("team-a", "kubernetes.io", "azure", "eks.amazonaws.com"):
        monkeypatch.setenv("REPLICATOR_SERVICE_NAMESPACE", namespace)
        for place in ("team-b/key", *tokens):
            found = problems_of(build, pipeline({"path": f"${{file({tmp_path}/{place})}}"}))
            assert "a service gives its pipelines" in found[f"{PROPERTIES}.path"], (namespace, place)
    monkeypatch.setenv("REPLICATOR_SERVICE_NAMESPACE", "team-a")
    assert path_of(build, f"${{file({tmp_path}/team-a/key)}}") == "text of team-a/key"
    assert path_of(build, f"${{file({tmp_path}/plain)}}") == "text of ..2026_01/plain"
    monkeypatch.delenv("REPLICATOR_SERVICE_SHARED_SECRETS")
    assert f"{PROPERTIES}.path" in problems_of(build, pipeline({"path": f"${{file({tmp_path}/plain)}}"}))
