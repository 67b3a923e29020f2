"""What a command prints when a service has it run for someone else."""

from __future__ import annotations

import json

import pytest

from replicator_runtime import FOR_SERVICE
from replicator_runtime.cli.report import Report
from replicator_runtime.observability.next_steps import Subject, completed
from replicator_runtime.service.commands.runner import read_envelope
from replicator_runtime.service.problems import ProblemError
from tests.runtime.cli.conftest import Replicator


def test_the_envelope_has_the_lines_that_a_terminal_shows(
    replicator: Replicator, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = replicator("plugins").stdout
    monkeypatch.setenv(FOR_SERVICE, "1")
    envelope = read_envelope(replicator("plugins", "--json").stdout_bytes, 0)
    assert envelope.lines
    assert envelope.lines == shown.splitlines()


def test_without_a_service_the_envelope_is_as_documented(replicator: Replicator) -> None:
    assert set(json.loads(replicator("plugins", "--json").stdout)) == {"schema", "data", "warnings", "error"}


def test_next_steps_name_no_file_of_the_service(replicator: Replicator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOR_SERVICE, "1")
    done = replicator("table", "pause", "/srv/work/shop.json", "orders", "--json")
    envelope = read_envelope(done.stdout_bytes, done.exit_code)
    assert envelope.error is not None
    assert "/srv/work" not in envelope.error["hint"]


def test_a_failed_command_is_a_problem_with_its_exit_code_class_and_table() -> None:
    error = {"code": "RPL-5030", "class": "data", "message": "it differs", "hint": "look", "table": "shop.orders"}
    printed = json.dumps({"data": None, "warnings": [], "error": error}).encode()
    with pytest.raises(ProblemError) as raised:
        read_envelope(printed, 5).raise_for_error()
    problem = raised.value.problem().model_dump(by_alias=True)
    assert (problem["exitCode"], problem["class"], problem["table"]) == (5, "data", "shop.orders")


def test_a_run_of_a_service_names_no_file_in_its_next_steps_either(
    replicator: Replicator, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "/srv/work/shop.json" in replicator("table", "pause", "/srv/work/shop.json", "orders").stderr
    monkeypatch.setenv(FOR_SERVICE, "1")
    with Report("run", as_json=False, subject=Subject("/srv/work/shop.json")):
        assert completed("`replicator status NAME`") == "`replicator status NAME`"
