"""Where no lease can be had, since the place of the state cannot be used, each command is refused by one line, and changes nothing."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.runtime.cli.conftest import Replicator
from tests.runtime.cli.test_table_commands import pipeline

__all__ = ["pipeline"]

_COMMANDS = (
    ("table", "pause", "orders"),
    ("table", "resume", "orders"),
    ("table", "retry", "orders"),
    ("table", "resync", "orders", "--in-place", "--yes"),
    ("table", "drop", "orders", "--yes"),
    ("pause",),
    ("resume",),
    ("rewind", "--offset", "1", "--yes"),
    ("reset", "--yes"),
    ("heal", "--yes"),
    ("delete", "--yes"),
    ("approve", "0123456789ab"),
    ("ddl", "list"),
    ("ddl", "approve", "0123456789ab"),
    ("ddl", "reject", "0123456789ab"),
    ("dead-letters", "list"),
    ("dead-letters", "replay", "orders"),
    ("verify",),
    ("verify", "--repair", "--yes"),
    ("explain-row", "orders", "id=1"),
    ("plan",),
    ("maintain",),
    ("run", "--until-current"),
)
_TWO_WORDS = frozenset({"table", "ddl", "dead-letters"})


def files(folder: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("place", ["below a file", "a store that is unknown"])
def test_a_command_is_refused_by_one_line_with_a_next_step(
    replicator: Replicator, pipeline: Path, tmp_path: Path, place: str
) -> None:
    file = tmp_path / "a file"
    file.write_text("no folder")
    document = json.loads(pipeline.read_text())
    document["offsetBasePath"] = str(file / "state") if place == "below a file" else "nowhere://bucket/state"
    elsewhere = tmp_path / "elsewhere.json"
    elsewhere.write_text(json.dumps(document))
    before = files(tmp_path)
    for words in _COMMANDS:
        count = 2 if words[0] in _TWO_WORDS else 1
        ended = replicator(*words[:count], elsewhere, *words[count:])
        assert ended.exit_code in {3, 4}, (words, ended.exit_code, ended.output)
        said = [line for line in ended.stderr.splitlines() if line.startswith("error ")]
        assert len(said) == 1, (words, ended.stderr)
        assert re.match(r"error RPL-\d{4}: .*Next: .+", said[0]), (words, said)
        assert "Traceback" not in ended.output
    assert files(tmp_path) == before
