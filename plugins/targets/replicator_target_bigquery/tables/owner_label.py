"""The label by which datasets and intermediate tables name the replicator that created them."""

from __future__ import annotations

import hashlib
from typing import Final

OWNER: Final = "replicator-owner"


def digest(text: str) -> str:
    """A label's value for `text`, such as a replicator or the address of a table: labels are short."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]
