"""What happens to a command's answer: places in the config, kinds of problems."""

from __future__ import annotations

from typing import Any

import pytest

from replicator_runtime.service.commands.runner import Envelope
from replicator_runtime.service.drafts.answers import pipeline_assessment
from replicator_runtime.service.drafts.documents import completed
from replicator_runtime.service.drafts.pointers import pointer_of
from replicator_runtime.service.drafts.questions import raise_for_problems
from replicator_runtime.service.problems import ProblemError
from tests.runtime.service.services import settings_in


@pytest.mark.parametrize(
    ("path", "pointer"),
    [
        ("", ""),
        ("stages[1].plugin.name", "/stages/1/plugin/name"),
        ("spark.conf.spark.sql.x", "/spark/conf/spark.sql.x"),
        ("a/b.c~d", "/a~1b/c~0d"),
        ("odd[0]key.x", "/odd[0]key/x"),
        ("stages[7].name", "/stages/7/name"),
        ("gone.deeper[2]", "/gone/deeper/2"),
        ("[3]", "/3"),
    ],
)
def test_a_path_becomes_a_pointer_by_the_keys_that_the_config_has(path: str, pointer: str) -> None:
    config = {"stages": [{}, {"plugin": {}}], "spark": {"conf": {"spark.sql.x": 1}}, "a/b": {}, "odd[0]key": {"x": 1}}
    assert pointer_of(path, config) == pointer


def test_a_config_that_is_not_valid_names_each_place() -> None:
    error = {
        "code": "RPL-1003",
        "class": "config",
        "message": "two problems",
        "hint": "fix them",
        "problems": [
            {"code": "RPL-1003", "path": "batch.maxRows", "message": "too small", "hint": ""},
            {"code": "RPL-1005", "path": "stages", "message": "0 stages are of type cdcTarget", "hint": "keep one"},
        ],
    }
    with pytest.raises(ProblemError) as refused:
        raise_for_problems(Envelope(3, None, [], error), {"batch": {"maxRows": 0}})
    assert (refused.value.status, refused.value.code) == (422, "RPL-1003")
    assert [one.pointer for one in refused.value.errors] == ["/batch/maxRows", "/stages"]


def test_facts_are_no_problems_for_a_client_of_the_seed() -> None:
    findings = [_finding("connection", "ERROR"), _finding("wal_level", "WARNING"), _finding("cost", "INFO")]
    answer = pipeline_assessment({"source": findings, "target": [], "tables": []}).model_dump(by_alias=True)
    assert [one["name"] for one in answer["connectivityProblems"]] == ["connection"]
    assert [one["name"] for one in answer["featureProblems"]] == ["wal_level"]
    assert [one["name"] for one in answer["notes"]] == ["cost"]


def _finding(name: str, severity: str) -> dict[str, Any]:
    keys = ("description", "impact", "suggestion", "fix", "table", "column", "code")
    return {"name": name, "severity": severity, **dict.fromkeys(keys, "")}


def test_a_draft_is_completed_by_its_name_and_its_only_possible_connection(tmp_path: Any) -> None:
    settings = settings_in(tmp_path)
    stages = [
        {"name": "s", "plugin": {"name": "sqlite", "type": "cdc-origin"}},
        {"name": "t", "plugin": {"name": "delta", "type": "cdcTarget"}},
    ]
    whole = completed({"stages": stages}, settings, "sales", "shop")
    assert whole["connections"] == [{"from": "s", "to": "t"}]
    assert (whole["name"], whole["namespace"], whole["offsetBasePath"]) == ("shop", "sales", settings.base_path)
    assert completed({"stages": stages[:1]}, settings, "sales", "shop")["connections"] == []
    assert completed({"stages": "none"}, settings, "sales", "shop")["connections"] == []
    with pytest.raises(ProblemError) as refused:
        completed({"namespace": "others"}, settings, "sales", "shop")
    assert refused.value.code == "RPL-1507"


def test_names_that_only_the_service_knows_are_replaced_everywhere() -> None:
    error = {"message": "/w/x.json is wrong", "hint": "fix /w/x.json"}
    found = Envelope(3, [{"a": "/w/x.json"}], ["/w/x.json"], error).renamed({"/w/x.json": "the config"})
    assert "/w/x.json" not in str(found)
