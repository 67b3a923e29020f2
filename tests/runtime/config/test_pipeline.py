from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from replicator_runtime.config import InvalidPipelineError, load_config, load_pipeline
from replicator_runtime.plugin_host import PluginHost
from replicator_sdk import OutOfRange
from replicator_sdk.errors import ConfigError
from tests.runtime.config.conftest import Build, pipeline, problems_of


def test_a_pipeline_becomes_source_target_and_settings(build: Build) -> None:
    made = build(pipeline({"path": "/a", "port": 5}, batch={"maxRows": 7}))
    assert (made.source.name, made.target.name) == ("shop", "shelf")
    assert (made.source_stage, made.target_stage) == ("in", "out")
    assert (made.source.config.path, made.source.config.port) == ("/a", 5)  # type: ignore[attr-defined]
    assert (made.config.batch.max_rows, made.config.namespace) == (7, "default")


def test_seed_001s_form_is_read(build: Build) -> None:
    """Resources, artifacts and the old names of the plugin types."""
    document = pipeline(resources={"vcores": 4, "memoryMB": 4096})
    for stage, kind in zip(document["stages"], ("cdc-origin", "cdc-destination"), strict=True):
        stage["plugin"] |= {"type": kind, "artifact": {"scope": "SYSTEM", "name": "cdc-x", "version": "0.1.0"}}
    made = build(document)
    assert (made.config.resources.vcores, made.config.resources.memory_mb) == (4, 4096)
    assert made.source.name == "shop"


def test_the_cdap_products_number_of_instances_is_tables_at_once(build: Build) -> None:
    assert build(pipeline(parallelism={"numInstances": 3})).config.parallelism.tables == 3


def test_all_problems_are_reported_at_once_with_their_paths(build: Build) -> None:
    document = pipeline({"path": 1, "prt": 5}, batch={"maxrows": 1}, tables=[{"tabel": "x"}], colour="red")
    assert problems_of(build, document) == {
        "batch.maxrows": 'unknown key "maxrows" | did you mean "maxRows"?',
        "tables[0].table": 'missing | add "table"',
        "tables[0].tabel": 'unknown key "tabel" | did you mean "table"?',
        "colour": problems_of(build, document)["colour"],
        "stages[0].plugin.properties.path": "input should be a valid string | ",
        "stages[0].plugin.properties.prt": 'unknown key "prt" | did you mean "port"?',
    }
    assert "known here: archive, batch, connections" in problems_of(build, document)["colour"]


def test_what_should_be_a_list_is_called_so(build: Build) -> None:
    assert problems_of(build, pipeline(tables={"table": "x"}))["tables"].startswith("input should be a list")


def test_a_plugins_settings_are_checked_with_their_path_in_the_pipeline(build: Build) -> None:
    found = problems_of(build, pipeline({"prt": 5, "port": "many"}))
    assert set(found) == {f"stages[0].plugin.properties.{key}" for key in ("prt", "port", "path")}
    assert 'did you mean "port"?' in found["stages[0].plugin.properties.prt"]


def test_a_macro_without_a_value_hides_no_other_problem_of_its_plugin(build: Build) -> None:
    found = problems_of(build, pipeline({"path": "${secure(absent)}", "prt": 5}, tables=[{"tabel": "x"}]))
    assert set(found) == {
        "tables[0].table",
        "tables[0].tabel",
        "stages[0].plugin.properties.path",
        "stages[0].plugin.properties.prt",
    }
    assert "absent" in found["stages[0].plugin.properties.path"]


def test_what_a_plugin_finds_wrong_in_configure_is_a_problem_of_its_properties(build: Build) -> None:
    found = problems_of(build, pipeline({"path": "/a", "port": 13}))
    assert found == {"stages[0].plugin.properties.port": "port 13 is unlucky | take another"}


@pytest.mark.parametrize("key", ["max_rows", "maxrows", "MaxRows"])
def test_keys_are_read_in_camel_case_only(build: Build, key: str) -> None:
    assert 'did you mean "maxRows"?' in problems_of(build, pipeline(batch={key: 5}))[f"batch.{key}"]


@pytest.mark.parametrize(
    ("change", "path", "words"),
    [
        ({"connections": []}, "connections", "0 connections"),
        ({"connections": [{"from": "in", "to": "out"}] * 2}, "connections", "2 connections"),
        ({"connections": [{"from": "inn", "to": "out"}]}, "connections[0].from", 'did you mean "in"?'),
        ({"connections": [{"from": "out", "to": "out"}]}, "connections[0].from", '"out" is not the source'),
        ({"connections": [{"from": "in", "to": "in"}]}, "connections[0].to", '"in" is not the target'),
        ({"name": "../etc"}, "name", "letters, digits, _, . and -"),
        ({"namespace": ""}, "namespace", "must begin with a letter or digit"),
        ({"ddlBlacklist": ["CREATE_TABLE"]}, "ddlBlacklist[0]", "input should be"),
        ({"dmlBlacklist": ["insert"]}, "dmlBlacklist[0]", "input should be"),
        ({"onTableError": "ignore"}, "onTableError", "isolate"),
        ({"batch": {"maxRows": 0}}, "batch.maxRows", "greater than or equal to 1"),
    ],
)
def test_a_wrong_setting_is_named(build: Build, change: dict[str, Any], path: str, words: str) -> None:
    assert words in problems_of(build, pipeline(**change))[path]


def test_stages_must_be_one_source_and_one_target_with_different_names(build: Build) -> None:
    document = pipeline()
    document["stages"] = [document["stages"][0], document["stages"][0]]
    found = problems_of(build, document)
    assert 'a second stage is named "in"' in found["stages[1].name"]
    assert "stages are of type" in found["stages"]


def test_a_blank_stage_name_is_refused(build: Build) -> None:
    document = pipeline()
    document["stages"][0]["name"] = "  "
    assert "must not be blank" in problems_of(build, document)["stages[0].name"]


def test_the_settings_of_plugins_say_in_words_what_a_name_may_hold() -> None:
    """A regular expression is no sentence."""
    patterns = 0
    for plugin in PluginHost().listing().plugins:
        for field in plugin.plugin.config_type.model_fields.values():
            if any(getattr(part, "pattern", None) for part in field.metadata):
                patterns += 1
                assert isinstance(field.json_schema_extra, dict)
                assert field.json_schema_extra["rule"]
    assert patterns


def test_an_unknown_plugin_is_a_problem_of_its_stage(build: Build) -> None:
    document = pipeline()
    document["stages"][0]["plugin"]["name"] = "shp"
    assert 'did you mean "shop"?' in problems_of(build, document)["stages[0].plugin.name"]


def test_no_value_of_a_wrong_setting_is_repeated(build: Build) -> None:
    document = pipeline(
        {"path": "/a", "password": ["hunter-22"], "port": "hunter-22"}, retries={"delaySeconds": "hunter-22"}
    )
    with pytest.raises(InvalidPipelineError) as outer:
        build(document)
    del document["retries"]
    with pytest.raises(InvalidPipelineError) as inner:
        build(document)
    assert "hunter-22" not in str(outer.value) + repr(outer.value) + str(inner.value) + repr(inner.value)


def test_what_plugins_need_in_spark_goes_together(build: Build) -> None:
    spark = build(pipeline()).spark
    assert spark.packages == ("org:source:1", "org:target:1")
    assert spark.conf == {"spark.sql.extensions": "A,B", "spark.x": "1"}


def test_spark_settings_are_text_in_sparks_spelling(build: Build) -> None:
    conf = build(pipeline(spark={"conf": {"a": True, "b": 4, "c": "x"}})).config.spark.conf
    assert conf == {"a": "true", "b": "4", "c": "x"}


def test_the_policy_for_values_out_of_range_is_the_plugins_word_or_fail(build: Build) -> None:
    assert build(pipeline()).out_of_range is OutOfRange.FAIL
    document = pipeline()
    document["stages"][1]["plugin"]["properties"] = {"outOfRange": "clamp"}
    assert build(document).out_of_range is OutOfRange.CLAMP


def test_state_is_stored_under_xdg_state_home_by_default(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/states")
    monkeypatch.setenv("HOME", "/home/me")
    assert build(pipeline()).config.offset_base_path == "/states/replicator"
    monkeypatch.setenv("XDG_STATE_HOME", "relative")  # the specification says to ignore it
    assert build(pipeline()).config.offset_base_path == "/home/me/.local/state/replicator"
    assert build(pipeline(offsetBasePath="~/kept")).config.offset_base_path == "/home/me/kept"
    assert build(pipeline(offsetBasePath="memory://kept")).config.offset_base_path == "memory://kept"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "line 1, column 2"),
        ('{"name": 1, "name": 2}', '"name" is repeated'),
        ('{"name": NaN}', "NaN"),
        ("[]", "no JSON object"),
        (b"\xff\xfe", "not UTF-8"),
    ],
)
def test_a_file_that_is_not_json_says_where(tmp_path: Path, text: str | bytes, words: str) -> None:
    file = tmp_path / "pipeline.json"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ConfigError, match=words) as error:
        load_config(file)
    assert error.value.code == "RPL-1002"


def test_a_missing_file_is_an_error_with_the_next_step(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file") as error:
        load_config(tmp_path / "no.json")
    assert error.value.code == "RPL-1001"


def test_a_file_is_loaded_as_the_same_pipeline(tmp_path: Path, host: PluginHost) -> None:
    file = tmp_path / "pipeline.json"
    file.write_text(json.dumps(pipeline()), "utf-8")
    assert load_pipeline(file, host=host).config == load_config(file)


def test_problems_survive_pickling() -> None:
    from replicator_runtime.config import Problem

    error = InvalidPipelineError([Problem("a", "x"), Problem("b", "y")], where="p.json")
    copy = pickle.loads(pickle.dumps(error))
    assert (copy.problems, str(copy)) == (error.problems, str(error))


def test_data_errors_are_followed_only_where_source_and_target_can(
    build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert build(pipeline()).config.on_data_error == "fail"
    for policy in ("lane", "null"):
        assert "does not say which values" in problems_of(build, pipeline(onDataError=policy))["onDataError"]
    made = build(pipeline())
    monkeypatch.setattr(type(made.source), "marks_refused", True)
    assert build(pipeline(onDataError="null")).config.on_data_error == "null"
    assert "cannot put rows aside" in problems_of(build, pipeline(onDataError="lane"))["onDataError"]
    monkeypatch.setattr(type(made.target), "takes_lane", True)
    assert build(pipeline(onDataError="lane")).config.dead_letters.max_rows == 10_000
