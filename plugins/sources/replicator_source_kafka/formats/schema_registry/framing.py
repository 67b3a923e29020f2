"""Finds the schema ids of records: in a header, or before the data."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replicator_sdk.authoring.arrow_buffers import Bools
from replicator_sdk.batch import Int64s
from replicator_source_kafka.formats.format import Poison
from replicator_source_kafka.formats.schema_registry.registry_client import SchemaId
from replicator_source_kafka.record_batches.record_headers import header
from replicator_source_kafka.records import Records

_LONGEST = 2**31 - 1
_GUID = 17


@dataclass(frozen=True, slots=True)
class Frame:
    """Records with one schema.

    Attributes:
        identity: The schema's id.
        positions: Positions in the array of indexes that was given.
        data: The data without the schema's id.
    """

    identity: SchemaId
    positions: Int64s
    data: pa.BinaryArray


def frames(records: Records, part: str, index: Int64s, poison: list[Poison]) -> Iterator[Frame]:
    """The keys or values at `index`, all not null, by schema.

    A header takes precedence over an id before the data. Before the data there is a zero byte and an id of four bytes
    (the usual layout of Confluent and Apicurio) or eight bytes (older Apicurio), or a one byte and a GUID (newer Confluent).

    Args:
        records: The records.
        part: `key` or `value`.
        index: The indexes of the records.
        poison: Receives the records without a schema id.
    """
    column = _column(records, part)
    left = np.arange(len(index))
    if records.headers is not None:
        for name, read in _HEADERS.items():
            headers = header(records.headers, name.format(part=part).encode()).take(pa.array(index[left]))
            here = np.asarray(headers.is_valid().to_numpy(zero_copy_only=False))
            yield from _frames_by_header(column, index, left[here], headers.drop_null(), read, poison)
            left = left[~here]
    yield from _frames_by_prefix(column, index, left, poison)


def names_schema(records: Records, part: str, index: Int64s) -> Bools:
    """Which of the keys or values at `index` have the id of a registry's schema; JSON, text and null have none."""
    column = _column(records, part)
    heads = pc.binary_slice(column.take(pa.array(index)), 0, 1)
    found = pc.is_in(heads, pa.array([b"\0", b"\1"])).to_numpy(zero_copy_only=False)
    for name in _HEADERS if records.headers is not None else ():
        headers = header(records.headers, name.format(part=part).encode()).take(pa.array(index))
        found = found | headers.is_valid().to_numpy(zero_copy_only=False)
    return np.asarray(found & heads.is_valid().to_numpy(zero_copy_only=False))


def _column(records: Records, part: str) -> pa.BinaryArray:
    return (records.key if part == "key" else records.value).cast(pa.binary())


def _frames_by_header(
    column: pa.BinaryArray, index: Int64s, positions: Int64s, headers: pa.BinaryArray, read: _Read, poison: list[Poison]
) -> Iterator[Frame]:
    for value, some in _groups(headers):
        mine = positions[some]
        found = read(value)
        if found is None:
            reason = "has a header for its schema's id without an id"
            poison.extend(Poison(int(i), "RPL-3930", reason) for i in index[mine])
            continue
        identity, rest = found
        data = column.take(pa.array(index[mine]))
        yield Frame(identity, mine, pc.binary_join_element_wise(rest, data, b"") if rest else data)


def _frames_by_prefix(
    column: pa.BinaryArray, index: Int64s, positions: Int64s, poison: list[Poison]
) -> Iterator[Frame]:
    values = column.take(pa.array(index[positions]))
    for head, some in _groups(pc.binary_slice(values, 0, 5)):
        mine = values.take(pa.array(some))
        if len(head) == 5 and head[0] == 1:
            for guid, within in _groups(pc.binary_slice(mine, 0, _GUID)):
                if len(guid) == _GUID:
                    yield _frame(_guid(guid), mine, within, positions[some], _GUID)
                else:
                    poison.extend(_without_id(index[positions[some[within]]]))
        elif len(head) < 5 or head[0] != 0:
            poison.extend(_without_id(index[positions[some]]))
        elif head == b"\0\0\0\0\0":
            # The id 0 does not exist: these are the upper four bytes of Apicurio's eight.
            for lower, within in _groups(pc.binary_slice(mine, 5, 9)):
                yield _frame(_number(lower), mine, within, positions[some], 9)
        else:
            yield _frame(_number(head[1:]), mine, np.arange(len(some)), positions[some], 5)


def _frame(identity: SchemaId, values: pa.BinaryArray, within: Int64s, positions: Int64s, width: int) -> Frame:
    data = values if len(within) == len(values) else values.take(pa.array(within))
    return Frame(identity, positions[within], pc.binary_slice(data, width, _LONGEST))


def _groups(values: pa.BinaryArray) -> Iterator[tuple[bytes, Int64s]]:
    """Each distinct value and its positions."""
    coded = values.dictionary_encode()
    codes = coded.indices.to_numpy()
    for code, value in enumerate(coded.dictionary.to_pylist()):
        yield value, np.flatnonzero(codes == code)


def _without_id(index: Int64s) -> list[Poison]:
    return [Poison(int(i), "RPL-3930", "does not begin with a schema id") for i in index]


def _number(octets: bytes) -> SchemaId:
    return SchemaId("id", str(int.from_bytes(octets, "big")))


def _guid(octets: bytes) -> SchemaId:
    return SchemaId("guid", str(uuid.UUID(bytes=octets[1:_GUID])))


_HeaderId = tuple[SchemaId, bytes] | None
"""An id, and the bytes after it in the header (the path of Protobuf's message); None for an invalid header."""


def _of_confluent(value: bytes) -> _HeaderId:
    if value[:1] == b"\1" and len(value) >= _GUID:
        return _guid(value), value[_GUID:]
    if value[:1] == b"\0" and len(value) >= 5:
        return _number(value[1:5]), value[5:]
    return None


def _of_apicurio(kind: str) -> _Read:
    return lambda value: (SchemaId(kind, str(int.from_bytes(value, "big"))), b"") if len(value) == 8 else None


_Read = Callable[[bytes], _HeaderId]
_HEADERS: dict[str, _Read] = {
    "__{part}_schema_id": _of_confluent,
    "apicurio.{part}.contentId": _of_apicurio("contentId"),
    "apicurio.{part}.globalId": _of_apicurio("globalId"),
}
