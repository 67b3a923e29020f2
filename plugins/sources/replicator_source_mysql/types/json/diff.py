"""Partial updates of JSON (`binlog_row_value_options = PARTIAL_JSON`): what changed in a document, applied to it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from json import JSONDecoder

import pyarrow as pa

from replicator_source_mysql.hints import COPY_TABLE_AGAIN
from replicator_source_mysql.types.json.binary import (
    MalformedError,
    Tree,
    document_text,
    read_document,
)
from replicator_source_mysql.types.values.out_of_range import ColumnPolicy

_REPLACE, _INSERT, _REMOVE = 0, 1, 2
_LEG = re.compile(r"\s*(?:\[\s*(?P<cell>[0-9]+)\s*\]|\.\s*(?:(?P<quoted>\")|(?P<name>[^\s.*\[\"]+)))")
_HINT = (
    "set binlog_row_value_options to '' at the server, since a document is another one than the log's; "
    f"{COPY_TABLE_AGAIN}"
)


@dataclass(frozen=True, slots=True)
class Diff:
    """One change of a document.

    Attributes:
        operation: Replace, insert or remove.
        path: Names of members and numbers of cells, from the document's root.
        value: The new value; nothing for a removal.
    """

    operation: int
    path: tuple[str | int, ...]
    value: Tree = ""


class DoesNotApplyError(ValueError):
    """The document has no such path."""


def updated_documents(before: pa.BinaryArray, diffs: pa.BinaryArray, policy: ColumnPolicy) -> pa.StringArray:
    """Each document of `before` with the changes in `diffs` made, as text; NULL where `diffs` is NULL.

    Args:
        before: Binary JSON from the image before; NULL where it is SQL's NULL or not there.
        diffs: The changes, as the image after has them, without a length before them.
        policy: For errors.

    Raises:
        DataError: When a change does not fit its document, or bytes are not in their format.
    """
    try:
        pairs = zip(before.to_pylist(), diffs.to_pylist(), strict=True)
        texts = [None if diff is None else apply_diffs(document, diff) for document, diff in pairs]
    except MalformedError:
        raise policy.error("bytes that are no change of a JSON document", code="RPL-3738", hint=_HINT) from None
    except DoesNotApplyError:
        raise policy.error(
            "a change of a JSON document at a place that it does not have", code="RPL-3739", hint=_HINT
        ) from None
    return pa.array(texts, pa.string())


def apply_diffs(before: bytes | None, diffs: bytes) -> str:
    """The text of the document `before`, in binary form, after all of `diffs` in their order.

    Raises:
        MalformedError: When bytes are not in their format.
        DoesNotApplyError: When a path does not exist.
    """
    if before is None:
        raise DoesNotApplyError("no document")
    tree = read_document(before)
    for diff in read_diffs(diffs):
        tree = _applied(tree, diff)
    return document_text(_sorted(tree))


def read_diffs(data: bytes) -> Iterator[Diff]:
    """The changes in `data`: an operation, a path, and for all but a removal the new value, each after its length.

    Raises:
        MalformedError: When the bytes are not that.
    """
    at = 0
    try:
        while at < len(data):
            operation = data[at]
            path, at = _chunk(data, at + 1)
            legs = read_path(path.decode())
            if operation == _REMOVE:
                yield Diff(operation, legs)
            elif operation in {_REPLACE, _INSERT}:
                value, at = _chunk(data, at)
                yield Diff(operation, legs, read_document(value))
            else:
                raise MalformedError("an unknown operation")
    except (IndexError, UnicodeDecodeError):
        raise MalformedError("not a change") from None


def _chunk(data: bytes, at: int) -> tuple[bytes, int]:
    """Bytes after their length, which is one byte, or a mark and 2, 3 or 8 bytes."""
    size = data[at]
    at += 1
    if size > 250:
        width = {252: 2, 253: 3, 254: 8}.get(size, 0)
        if not width:
            raise MalformedError("not a length")
        size, at = int.from_bytes(data[at : at + width], "little"), at + width
    if at + size > len(data):
        raise MalformedError("beyond the end")
    return data[at : at + size], at + size


def read_path(text: str) -> tuple[str | int, ...]:
    r"""The legs of a path such as `$.a[3]."odd name"`.

    Raises:
        MalformedError: When it is none, or has a wildcard.
    """
    if not text.startswith("$"):
        raise MalformedError("a path that does not begin at the document")
    legs: list[str | int] = []
    at = 1
    while at < len(text):
        leg = _LEG.match(text, at)
        if leg is None:
            raise MalformedError("not a path")
        at = leg.end()
        if leg["cell"] is not None:
            legs.append(int(leg["cell"]))
        elif leg["quoted"]:
            try:
                name, at = JSONDecoder(strict=False).raw_decode(text, at - 1)
            except ValueError:
                raise MalformedError("not a name") from None
            legs.append(str(name))
        else:
            legs.append(leg["name"])
    return tuple(legs)


def _applied(tree: Tree, diff: Diff) -> Tree:
    """The tree after one change; containers are changed in place."""
    if not diff.path:
        if diff.operation != _REPLACE:
            raise DoesNotApplyError("a document cannot be inserted or removed")
        return diff.value
    parent = tree
    for leg in diff.path[:-1]:
        parent = _child(parent, leg)
    leg = diff.path[-1]
    if isinstance(parent, dict) and isinstance(leg, str):
        _change_member(parent, leg, diff)
    elif isinstance(parent, list) and isinstance(leg, int):
        _change_cell(parent, leg, diff)
    else:
        raise DoesNotApplyError("neither a member nor a cell")
    return tree


def _child(parent: Tree, leg: str | int) -> Tree:
    if isinstance(parent, dict) and isinstance(leg, str) and leg in parent:
        return parent[leg]
    if isinstance(parent, list) and isinstance(leg, int) and leg < len(parent):
        return parent[leg]
    raise DoesNotApplyError("no such path")


def _change_member(parent: dict[str, Tree], name: str, diff: Diff) -> None:
    if (name in parent) == (diff.operation == _INSERT):
        raise DoesNotApplyError("a member that exists already, or does not exist")
    if diff.operation == _REMOVE:
        del parent[name]
    else:
        parent[name] = diff.value


def _change_cell(parent: list[Tree], cell: int, diff: Diff) -> None:
    if diff.operation == _INSERT:
        parent.insert(cell, diff.value)
        return
    if cell >= len(parent):
        raise DoesNotApplyError("no such cell")
    if diff.operation == _REMOVE:
        del parent[cell]
    else:
        parent[cell] = diff.value


def _sorted(tree: Tree) -> Tree:
    """The tree with the members of objects in MySQL's order: short names first, then by their bytes."""
    if isinstance(tree, list):
        return [_sorted(cell) for cell in tree]
    if isinstance(tree, dict):
        names = sorted(tree, key=lambda name: (len(name.encode()), name.encode()))
        return {name: _sorted(tree[name]) for name in names}
    return tree
