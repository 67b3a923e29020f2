"""Records of Connect's JsonConverter with `schemas.enable`: every record begins with its whole schema."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replicator_sdk.authoring.arrow_buffers import Bools
from replicator_sdk.batch import Int64s
from replicator_source_kafka.formats.json_records.json_value import loads
from replicator_source_kafka.types.connect_type import ConnectType, parse_connect_type

_OPENING, _BETWEEN = b'{"schema":', b',"payload":'
HEAD = b'{"payload":'
"""The beginning of a record after its schema is removed."""
NO_SCHEMA = "is not JSON with an embedded schema"
_MOST_HEADS = 512
_ODD_ONES = 16
_LONGEST = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Run:
    """Records with one schema.

    Attributes:
        kind: The schema.
        identity: The same for equal schemas.
        index: The indexes of the records, ascending.
        texts: The texts to read, without NULL: records without their head, or whole records.
        headless: Whether the heads were removed; `HEAD` must then be put before each text.
    """

    kind: ConnectType
    identity: bytes
    index: Int64s
    texts: pa.Array
    headless: bool


@dataclass(slots=True)
class SchemaHeads:
    """Groups records by the schema they embed.

    A converter writes the same bytes up to the payload of each record, so bytes are compared, not schemas. Records with
    another order of members or other white space are parsed one by one.

    Attributes:
        known: Head → schema, in the order of last use.
    """

    known: dict[bytes, ConnectType] = field(default_factory=dict)

    def runs(self, values: pa.Array, index: Int64s, bad: list[tuple[int, str]]) -> Iterator[Run]:
        """Groups of records with one schema; `values` are those at `index`, without NULL. Others are added to `bad`."""
        for head in reversed(tuple(self.known)):
            if not len(index):
                return
            hit = pc.starts_with(values, pattern=head)
            if not hit[0].as_py() and not pc.any(hit).as_py():
                continue
            self.known[head] = self.known.pop(head)
            run, values, index = self._cut(head, hit, values, index)
            yield run
        odd = 0
        while len(index):
            head_and_kind = _head_of(values[0].as_py())
            if head_and_kind is None:
                # A few unusual records are parsed one by one; if there are many, all remaining records are.
                odd += 1
                count = 1 if odd < _ODD_ONES else len(index)
                yield from self._slow_runs(values[:count], index[:count], bad)
                values, index = values[count:], index[count:]
                continue
            head, kind = head_and_kind
            self._remember(head, kind)
            run, values, index = self._cut(head, pc.starts_with(values, pattern=head), values, index)
            yield run

    def _cut(self, head: bytes, hit: pa.Array, values: pa.Array, index: Int64s) -> tuple[Run, pa.Array, Int64s]:
        """The records that begin with the head, with the head removed, and the others."""
        here = np.asarray(hit.to_numpy(zero_copy_only=False))
        mine, others = (values, values[:0]) if here.all() else (values.filter(hit), values.filter(pc.invert(hit)))
        # Without a stop, Arrow 26 computes a negative size for some hundred values or more.
        texts = pc.binary_slice(mine, len(head), _LONGEST)
        return Run(self.known[head], head, index[here], texts, headless=True), others, index[~here]

    def _remember(self, head: bytes, kind: ConnectType) -> None:
        while len(self.known) >= _MOST_HEADS:
            self.known.pop(next(iter(self.known)))
        self.known[head] = kind

    @staticmethod
    def _slow_runs(values: pa.Array, index: Int64s, bad: list[tuple[int, str]]) -> Iterator[Run]:
        groups: dict[bytes, list[int]] = {}
        schemas: dict[bytes, Any] = {}
        for i, text in enumerate(values.to_pylist()):
            try:
                schema = member(text, "schema")
                identity = json.dumps(schema, sort_keys=True).encode()
            except (ValueError, RecursionError):
                bad.append((int(index[i]), NO_SCHEMA))
            else:
                schemas[identity] = schema
                groups.setdefault(identity, []).append(i)
        for identity, places in groups.items():
            where = index[places]
            try:
                kind = parse_connect_type(schemas[identity])
            except (ValueError, KeyError, TypeError, AttributeError):
                bad.extend((int(i), "has a schema that is not one of Connect's") for i in where)
            else:
                yield Run(kind, identity, where, values.take(pa.array(places)), headless=False)


def member(text: bytes, name: str) -> Any:
    """A member of a record's JSON object.

    Raises:
        ValueError: When the record is not an object with the members `schema` and `payload`.
    """
    value = loads(text)
    if not isinstance(value, dict) or not {"schema", "payload"} <= value.keys():
        raise ValueError(NO_SCHEMA)
    return value[name]


def may_have_schema(values: pa.Array) -> Bools:
    """Which records may embed a schema; the others certainly do not."""
    usual = pc.starts_with(values, pattern=_OPENING)
    if pc.all(usual).as_py():
        return np.ones(len(values), np.bool_)
    # Searching whole texts is slow: it is done only for those that do not begin like the converter's.
    members = [pc.match_substring(pc.if_else(usual, b"", values), pattern=name) for name in (b'"schema"', b'"payload"')]
    found: Bools = pc.or_(usual, pc.and_(*members)).to_numpy(zero_copy_only=False)
    return found


def _head_of(text: bytes) -> tuple[bytes, ConnectType] | None:
    """A record's bytes up to its payload, and the schema in them; None if they are not in the converter's form."""
    if not text.startswith(_OPENING + b"{"):
        return None
    try:
        decoded = text.decode()
        schema, end = json.JSONDecoder().raw_decode(decoded, len(_OPENING))
        head = decoded[:end].encode() + _BETWEEN
        return (head, parse_connect_type(schema)) if text.startswith(head) else None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
