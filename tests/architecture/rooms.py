"""The rooms of design and packaging, and the source files in them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Room:
    """One import package, and the packages of this repository that it may import beside itself."""

    folder: str
    package: str
    may_import: frozenset[str]

    @property
    def path(self) -> Path:
        """The package's folder."""
        return ROOT / self.folder / self.package


@dataclass(frozen=True, slots=True)
class Source:
    """One module of a room."""

    room: Room
    path: Path

    @property
    def module(self) -> str:
        """Dotted name, as an import statement has it."""
        parts = self.path.relative_to(self.room.path.parent).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @property
    def tree(self) -> ast.Module:
        """The parsed module."""
        return ast.parse(self.path.read_text(encoding="utf-8"), str(self.path))


SDK = "replicator_sdk"


@cache
def rooms() -> tuple[Room, ...]:
    """Every room there is; a plugin's folder is found, so that a new plugin falls under the rules without a line here."""
    fixed = (
        Room("sdk", SDK, frozenset()),
        Room("state", "replicator_state", frozenset({SDK})),
        Room("runtime", "replicator_runtime", frozenset({SDK, "replicator_state"})),
    )
    plugins = sorted((ROOT / "plugins").glob("*/replicator_*"))
    return fixed + tuple(
        Room(str(path.parent.relative_to(ROOT)), path.name, frozenset({SDK})) for path in plugins if path.is_dir()
    )


def sources() -> Iterator[Source]:
    """All modules of all rooms."""
    for room in rooms():
        for path in sorted(room.path.rglob("*.py")):
            yield Source(room, path)
