from __future__ import annotations

import json

import pytest
import typer

from replicator_runtime.cli.report import Report, columns, printable
from replicator_runtime.config import InvalidPipelineError, Problem
from replicator_runtime.observability import redaction
from replicator_sdk import errors


def exit_code(error: BaseException, *, as_json: bool = False, debug: bool = False) -> int:
    with pytest.raises(typer.Exit) as ended, Report("test", as_json=as_json, debug=debug):
        raise error
    return ended.value.exit_code


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (errors.RetryableError, 4),
        (errors.NeedsUserError, 3),
        (errors.ConfigError, 3),
        (errors.DataError, 5),
        (errors.SchemaDriftError, 6),
        (errors.HistoryLostError, 7),
        (errors.FencedError, 8),
        (errors.BugError, 1),
    ],
)
def test_the_type_of_an_error_is_the_exit_code(kind: type[errors.ReplicatorError], code: int) -> None:
    assert exit_code(kind("x", code="RPL-0000")) == code


def test_every_error_type_has_an_exit_code_of_its_own_recovery() -> None:
    kinds = [k for k in vars(errors).values() if isinstance(k, type) and issubclass(k, errors.ReplicatorError)]
    assert {k.exit_code for k in kinds} == {1, 3, 4, 5, 6, 7, 8}


def test_an_error_is_one_line_with_code_place_and_next_step(capsys: pytest.CaptureFixture[str]) -> None:
    exit_code(errors.DataError("it does\nnot fit", code="RPL-0000", hint="widen it", table="a.b", position="0/1"))
    assert capsys.readouterr() == (
        "",
        "error RPL-0000: it does not fit [table a.b] [position 0/1]. Next: widen it\n",
    )


def test_an_unexpected_error_is_a_bug_without_a_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(KeyError("x")) == 1
    shown = capsys.readouterr().err
    assert shown.startswith("error RPL-9000: unexpected KeyError: 'x'")
    assert "Traceback" not in shown


def test_debug_shows_where_an_error_came_from(capsys: pytest.CaptureFixture[str]) -> None:
    exit_code(KeyError("x"), debug=True)
    assert "Traceback" in capsys.readouterr().err


def test_several_problems_are_a_headline_and_a_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    exit_code(InvalidPipelineError([Problem("a.b", "no", "yes"), Problem("c", "never")], where="p.json"))
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("error RPL-1003: p.json has 2 problems.")
    assert lines[1:] == ["  a.b: no (yes)", "  c: never"]


def test_json_is_one_envelope_on_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    with Report("test", as_json=True) as report:
        report.data = {"x": 1}
        report.warn("careful")
        report.note("for people")
        report.line("for people")
    shown = capsys.readouterr()
    assert shown.err == ""
    assert json.loads(shown.out) == {
        "schema": "replicator.test/v1",
        "data": {"x": 1},
        "warnings": ["careful"],
        "error": None,
    }


def test_an_error_is_in_the_envelope_beside_the_data(capsys: pytest.CaptureFixture[str]) -> None:
    report = Report("test", as_json=True)
    report.data = [1]
    with pytest.raises(typer.Exit), report:
        raise errors.ConfigError("bad", code="RPL-0001", hint="fix", path="a.b")
    shown = json.loads(capsys.readouterr().out)
    assert shown["data"] == [1]
    assert shown["error"] == {
        "code": "RPL-0001",
        "class": "config",
        "message": "bad",
        "hint": "fix",
        "doc_url": "docs/errors.md#rpl-0001",
        "table": None,
        "position": None,
        "path": "a.b",
    }


@pytest.mark.parametrize("as_json", [False, True])
def test_no_registered_secret_is_printed(capsys: pytest.CaptureFixture[str], as_json: bool) -> None:
    redaction.register_secret("hunter-22")
    with Report("test", as_json=as_json) as report:
        report.data = {"deep": [{"text": "a hunter-22 b"}]}
        report.line("hunter-22")
        report.warn("hunter-22")
        report.note("hunter-22")
    exit_code(errors.DataError("hunter-22", code="RPL-0001"), as_json=as_json, debug=True)
    shown = capsys.readouterr()
    assert "hunter-22" not in shown.out + shown.err
    assert "***" in shown.out + shown.err


def test_columns_are_aligned_numbers_to_the_right_and_empty_cells_marked() -> None:
    assert columns(("name", "rows"), [("a", 1234567), ("long one", None)]) == [
        "NAME           ROWS",
        "a         1,234,567",
        "long one          -",
    ]


def test_control_characters_are_written_out() -> None:
    assert printable("a\x1b[31m\x07b\tc") == "a\\x1b[31m\\x07b\tc"
