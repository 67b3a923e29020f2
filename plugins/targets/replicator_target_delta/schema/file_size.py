"""How large a table's owner wants its files: Delta's property `delta.targetFileSize`."""

from __future__ import annotations

import re
from typing import Any, Final

_PROPERTY: Final = "delta.targetFileSize"
_SIZE: Final = re.compile(r"\s*(\d+)\s*([kmgt]?)b?\s*", re.IGNORECASE)
_STEPS: Final = " kmgt"
_SMALLEST: Final = 1 << 20


def target_file_size(metadata: dict[str, Any]) -> int | None:
    """The size in bytes, at least one megabyte, that a table's `metaData` names; None where it names none that is understood."""
    text = metadata.get("configuration", {}).get(_PROPERTY, "")
    found = _SIZE.fullmatch(text)
    if found is None:
        return None
    return max(_SMALLEST, int(found[1]) << (10 * _STEPS.index(found[2].lower() or " ")))
