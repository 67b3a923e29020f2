"""The words of the commands that jobs run. Texts of users are values of options, or follow `--`: none is taken for an option."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from replicator_runtime.service.operations.schemas import ExplainRow, Maintain, Rewind, Verify


class Command(NamedTuple):
    """A command.

    Attributes:
        words: As it is run, with `--json`.
        shown: As people give it: it names the pipeline instead of its file, and has no row's values.
    """

    words: list[str]
    shown: list[str]


def verify(file: Path, name: str, body: Verify) -> Command:
    """`replicator verify`."""
    return _command("verify", ["--repair", "--yes"] if body.repair else [], file, name, body.tables)


def explain_row(file: Path, name: str, body: ExplainRow) -> Command:
    """`replicator explain-row`; the key is a row's values."""
    made = _command("explain-row", [], file, name, [body.table])
    return Command([*made.words, json.dumps(body.key, ensure_ascii=False)], [*made.shown, "KEY"])


def heal(file: Path, name: str) -> Command:
    """`replicator heal`."""
    return _command("heal", ["--yes"], file, name)


def reset(file: Path, name: str) -> Command:
    """`replicator reset`."""
    return _command("reset", ["--yes"], file, name)


def maintain(file: Path, name: str, body: Maintain) -> Command:
    """`replicator maintain`."""
    options = [*(f"--table={table}" for table in body.tables), *(f"--task={task}" for task in body.tasks)]
    return _command("maintain", [*options, *(["--all"] if body.all else [])], file, name)


def rewind(file: Path, name: str, body: Rewind) -> Command:
    """`replicator rewind`; without `--yes`, for the plan alone, it ends where it asks."""
    options = [f"--offset={body.offset}"] if body.offset else []
    options += [f"--time={body.time}"] if body.time else []
    return _command("rewind", [*options, *([] if body.plan_only else ["--yes"])], file, name)


def _command(name: str, options: Sequence[str], file: Path, pipeline: str, texts: Sequence[str] = ()) -> Command:
    return Command([name, *options, "--json", "--", str(file), *texts], [name, *options, pipeline, *texts])
