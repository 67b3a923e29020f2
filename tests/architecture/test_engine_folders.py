"""Each folder of the engine imports only folders above it in the table of ARCHITECTURE.md, and chains of imports are short."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from tests.architecture.imports import imports_in
from tests.architecture.packages import ROOT, sources

if TYPE_CHECKING:
    from tests.architecture.packages import Source

_ENGINE = "replicator_runtime.engine"
_LONGEST_CHAIN = 9


def ranks() -> dict[str, int]:
    """The row of each folder; folders of one row do not know each other."""
    text = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    table = text.partition("### The engine's folders")[2].partition("\n## ")[0]
    rows = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `")]
    return {name: rank for rank, row in enumerate(rows) for name in re.findall(r"`(\w+)/`", row)}


def folder(module: str) -> str | None:
    """The folder of a module of the engine, "engine" for those in none; None outside the engine."""
    if not module.startswith(f"{_ENGINE}."):
        return None
    parts = module.removeprefix(f"{_ENGINE}.").split(".")
    return parts[0] if (ROOT / "runtime/replicator_runtime/engine" / parts[0]).is_dir() else "engine"


def wrong_imports(source: Source, order: dict[str, int]) -> list[str]:
    """Imports of folders that are not above the module's own; those for type checkers are counted, too."""
    own = folder(source.module)
    if own is None:
        return []
    imported = {name.name: folder(name.name) for name in imports_in(source)}
    return [
        f"{source.module} imports {name}"
        for name, other in imported.items()
        if other not in (None, own) and order[str(other)] >= order[own]
    ]


def test_each_folder_imports_only_folders_above_it() -> None:
    order = ranks()
    assert [line for source in sources() for line in wrong_imports(source, order)] == []


def test_the_table_has_every_folder_and_no_other() -> None:
    found = {folder(source.module) for source in sources()} - {None}
    assert found == set(ranks())


def test_an_import_of_a_folder_below_is_found() -> None:
    """The twin: with the order turned round, the engine as it is breaks the rule."""
    turned = {name: -rank for name, rank in ranks().items()}
    assert [line for source in sources() for line in wrong_imports(source, turned)]


def longest_chain() -> tuple[str, ...]:
    """The engine's modules of which each imports the next; imports for type checkers are counted, too."""
    engine = {source.module: source for source in sources() if folder(source.module) is not None}
    imported = {
        name: {found.name for found in imports_in(source)} & engine.keys() - {name} for name, source in engine.items()
    }

    @cache
    def chain_from(module: str) -> tuple[str, ...]:
        return (module, *max(map(chain_from, imported[module]), key=len, default=()))

    return max(map(chain_from, engine), key=len)


def test_the_longest_chain_of_imports_is_short() -> None:
    """Who changes the last module of a chain has all the others to think of."""
    chain = longest_chain()
    assert chain[0] == f"{_ENGINE}.worker"
    assert len(chain) <= _LONGEST_CHAIN, " imports ".join(chain)
