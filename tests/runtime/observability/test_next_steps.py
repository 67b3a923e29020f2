"""Commands in next steps are printed as they are to be given: with the pipeline as it is called here, and the table."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from replicator_runtime.observability.next_steps import Subject, completed, set_subject, without_copies

FILE = Subject("shop/orders.json")


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    yield
    set_subject(Subject())


@pytest.mark.parametrize(
    ("subject", "table", "text", "wanted"),
    [
        (FILE, "a.b", "`replicator table resync NAME TABLE --in-place`", "table resync shop/orders.json a.b --in-place"),
        (FILE, "a.b", "`replicator table resync`", "table resync"),
        (FILE, "", "`replicator table resync NAME TABLE`", "table resync shop/orders.json TABLE"),
        (FILE, "", "`replicator reset PIPELINE --lost-state`", "reset shop/orders.json --lost-state"),
        (FILE, "", "`replicator run`", "run shop/orders.json"),
        (FILE, "", "`replicator run --until-current`", "run shop/orders.json --until-current"),
        (FILE, "", "`replicator offsets list`", "offsets list shop/orders.json"),
        (FILE, "", "`replicator plugins`", "plugins"),
        (FILE, "", "`replicator --version`", "--version"),
        (FILE, "a.b", "`replicator table resync PIPELINE a.c`", "table resync shop/orders.json a.c"),
        (FILE, "", "`replicator ddl approve NAME ID`", "ddl approve shop/orders.json ID"),
        (Subject("a file.json", table="x y"), "", "`replicator table retry NAME TABLE`", "table retry 'a file.json' 'x y'"),
        (Subject("a.json", table="x"), "m.x", "`replicator table retry NAME TABLE`", "table retry a.json m.x"),
        (Subject("shop"), "a.b", "`replicator table retry NAME TABLE`", "table retry shop a.b"),
        (Subject("shop"), "", "`replicator reset PIPELINE`", "reset PIPELINE"),
        (Subject("shop"), "", "`replicator verify NAME`", "verify NAME"),
        (Subject("shop"), "", "`replicator run`", "run"),
        (Subject("shop", "eu", "/state"), "", "`replicator status`", "status shop --namespace eu --base /state"),
        (Subject("a.json", "eu", "/state"), "", "`replicator status`", "status a.json --base /state"),
        (Subject(), "", "`replicator status`", "status"),
        (Subject(), "a.b", "`replicator table retry NAME TABLE`", "table retry NAME a.b"),
    ],
)  # fmt: skip
def test_a_command_is_completed_as_far_as_is_known(subject: Subject, table: str, text: str, wanted: str) -> None:
    set_subject(subject)
    assert completed(f"NAME the TABLE: {text}; or not", table) == f"NAME the TABLE: `replicator {wanted}`; or not"


@pytest.mark.parametrize("table", ["public.$(rm -rf x)", "it's", "a`b", "-x", 'say "hi"'])
def test_a_name_cannot_run_anything_in_a_shell(table: str) -> None:
    set_subject(FILE)
    shown = completed("`replicator table retry NAME TABLE`", table)
    assert shlex.split(shown[1:-1])[-1] == table


def test_a_file_without_the_usual_ending_is_a_file(tmp_path: Path) -> None:
    file = tmp_path / "pipeline"
    file.write_text("{}")
    set_subject(Subject(str(file)))
    assert completed("`replicator reset PIPELINE`") == f"`replicator reset {file}`"


@pytest.mark.parametrize("command", ["NAME TABLE", "NAME TABLE --in-place", "NAME TABLE…", "NAME TABLE… --in-place"])
def test_a_copy_of_one_table_is_another_step_where_the_source_makes_none(command: str) -> None:
    found = without_copies(f"put it back; or copy it again: `replicator table resync {command}`")
    assert found.startswith(
        "put it back; or copy it again: `replicator reset PIPELINE`; this source copies no single table"
    )
    assert without_copies(found) == found


@pytest.mark.parametrize(
    "text", ["", "`replicator table resync`, in the pipeline that writes it", "`replicator heal PIPELINE`"]
)
def test_another_step_stays_as_it_is(text: str) -> None:
    assert without_copies(text) == text
