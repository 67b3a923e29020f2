"""Decoded records in a form to compare."""

from __future__ import annotations

from typing import Any

from replicator_source_kafka.formats import Decoded


def said(decoded: Decoded) -> list[tuple[int, int, Any]]:
    """Index, operation, and the row (for a delete, the row before), in order."""
    found = []
    for part in decoded.parts:
        rows = part.row.to_pylist()
        before = part.before.to_pylist() if part.before is not None else [None] * len(rows)
        for index, op, row, old in zip(part.index.tolist(), part.op.to_pylist(), rows, before, strict=True):
            found.append((index, op, old if op == 3 else row))
    return sorted(found, key=lambda change: change[0])


def refused(decoded: Decoded) -> None:
    """Raise the error of the first part that has one."""
    for part in decoded.parts:
        if part.error is not None:
            raise part.error
