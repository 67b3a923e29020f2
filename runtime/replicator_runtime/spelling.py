"""The nearest known word to one that is not known."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from replicator_sdk import TableId


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that `word` was most likely meant to be, None when none is near; case and `_` do not count."""
    by_folded = {_folded(name): name for name in known}
    found = difflib.get_close_matches(_folded(word), by_folded, n=1, cutoff=0.6)
    return by_folded[found[0]] if found else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A hint naming the nearest known word, or all of them when none is near; empty when nothing is known."""
    names = sorted(known)
    if close := nearest(word, names):
        return f'did you mean "{close}"?'
    return f"known here: {', '.join(names)}" if names else ""


def near_name(name: str, tables: Iterable[TableId]) -> str:
    """The beginning of a hint that names the table which was most likely meant; empty when none is near."""
    known = list(tables)
    for table in known:
        if str(table) == name:  # such as with its database given as a schema
            parts = {part: value for part, value in table.to_json().items() if value}
            return f"did you mean {json.dumps(parts, ensure_ascii=False)}? "
    near = difflib.get_close_matches(name, [str(t) for t in known] + [t.table for t in known], 1, 0.8)
    return f"did you mean {near[0]}? " if near else ""


def _folded(word: str) -> str:
    return word.casefold().replace("_", "")
