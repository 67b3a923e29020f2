"""The import packages of this repository, and their modules."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Package:
    """One import package, and the packages of this repository that it may import beside itself."""

    folder: str
    name: str
    may_import: frozenset[str]

    @property
    def path(self) -> Path:
        """The package's folder."""
        return ROOT / self.folder / self.name


@dataclass(frozen=True, slots=True)
class Source:
    """One module of a package."""

    package: Package
    path: Path

    @property
    def module(self) -> str:
        """Dotted name, as an import statement has it."""
        parts = self.path.relative_to(self.package.path.parent).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @property
    def tree(self) -> ast.Module:
        """The parsed module."""
        return ast.parse(self.path.read_text(encoding="utf-8"), str(self.path))


SDK = "replicator_sdk"


@cache
def packages() -> tuple[Package, ...]:
    """Every import package; plugins are found by folder, so that the rules hold for a new one without a line here."""
    fixed = (
        Package("sdk", SDK, frozenset()),
        Package("state", "replicator_state", frozenset({SDK})),
        Package("runtime", "replicator_runtime", frozenset({SDK, "replicator_state"})),
    )
    plugins = sorted((ROOT / "plugins").glob("*/replicator_*"))
    return fixed + tuple(
        Package(str(path.parent.relative_to(ROOT)), path.name, frozenset({SDK})) for path in plugins if path.is_dir()
    )


def sources() -> Iterator[Source]:
    """All modules of all packages."""
    for package in packages():
        for path in sorted(package.path.rglob("*.py")):
            yield Source(package, path)
