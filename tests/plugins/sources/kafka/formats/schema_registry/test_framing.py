"""Schema ids of records: before the data or in a header, by number or GUID."""

from __future__ import annotations

import uuid
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replicator_source_kafka.config import KafkaConfig
from replicator_source_kafka.formats import make_format
from replicator_source_kafka.formats.format import Poison
from replicator_source_kafka.formats.schema_registry.framing import frames, names_schema
from replicator_source_kafka.formats.schema_registry.registry_client import SchemaId
from replicator_source_kafka.records import Records
from tests.plugins.sources.kafka.formats.connect import records
from tests.plugins.sources.kafka.formats.schema_registry.small_registry import registry_that_answers

GUID = uuid.UUID("6f9619ff-8b86-d011-b42d-00c04fc964ff")
BY_GUID = ("guid", str(GUID))
V0, V1, V8 = b"\0\0\0\0\7", b"\1" + GUID.bytes, bytes(9)[:-1] + b"\7"


def varint(number: int) -> bytes:
    """As Kafka's protocol writes numbers."""
    number = number << 1 if number >= 0 else ~(number << 1)
    out = b""
    while number >= 0x80:
        out, number = out + bytes([number & 0x7F | 0x80]), number >> 7
    return out + bytes([number])


def headers(**given: bytes | None) -> bytes:
    """A record's headers; `__` in a name means a dot, except at its beginning."""
    out = varint(len(given))
    for name, value in given.items():
        key = (name if name.startswith("__") else name.replace("__", ".")).encode()
        out += varint(len(key)) + key + (varint(-1) if value is None else varint(len(value)) + value)
    return out


def schema_of(value: bytes, header: bytes | None = None) -> tuple[tuple[str, str], bytes] | str:
    """The schema id of a record's value and its data, or the code of its poison."""
    made = with_headers(records((None, value)), header)
    poison: list[Poison] = []
    found = [
        ((f.identity.kind, f.identity.value), f.data[0].as_py()) for f in frames(made, "value", np.array([0]), poison)
    ]
    return poison[0].code if poison else found[0]


def with_headers(made: Records, *given: bytes | None) -> Records:
    """The same records with headers."""
    return replace(made, headers=pa.array([h and h + b"junk" for h in given], pa.binary()) if any(given) else None)


@pytest.mark.parametrize(
    ("value", "header", "wanted"),
    [
        (V0 + b"x", None, (("id", "7"), b"x")),
        (V8 + b"x", None, (("id", "7"), b"x")),
        (V1 + b"x", None, (BY_GUID, b"x")),
        (V0 + b"x", headers(other=b"y"), (("id", "7"), b"x")),
        (V0 + b"x", headers(__value_schema_id=None), (("id", "7"), b"x")),
        (b"x", headers(__value_schema_id=V1), (BY_GUID, b"x")),
        (b"x", headers(__key_schema_id=V0, __value_schema_id=V1), (BY_GUID, b"x")),
        (b"x", headers(__value_schema_id=V1 + b"\2\0"), (BY_GUID, b"\2\0x")),
        (b"x", headers(__value_schema_id=V0), (("id", "7"), b"x")),
        (b"x", headers(a=None, __value_schema_id=V1, b=None), (BY_GUID, b"x")),
        (V0, headers(apicurio__value__globalId=bytes(7) + b"\5"), (("globalId", "5"), V0)),
        (b"x", headers(a=b"b" * 200, apicurio__value__contentId=bytes(6) + b"\1\0"), (("contentId", "256"), b"x")),
        (b"", headers(apicurio__value__contentId=bytes(7) + b"\1"), (("contentId", "1"), b"")),
        (b"x", headers(apicurio__value__contentId=b"\1"), "RPL-3930"),
        (b"x", headers(__value_schema_id=b"\1"), "RPL-3930"),
        (b"x", headers(__key_schema_id=V1), "RPL-3930"),
        (V1[:-1], None, "RPL-3930"),
        (V0[:-1], None, "RPL-3930"),
        (b"", None, "RPL-3930"),
    ],
)
def test_the_schema_id_of_a_record_is_found(value: bytes, header: bytes | None, wanted: object) -> None:
    assert schema_of(value, header) == wanted


FORMS = {
    "four": (V0 + b"d", None),
    "eight": (V8 + b"d", None),
    "guid": (V1 + b"d", None),
    "header": (b"d", headers(__value_schema_id=V1)),
    "apicurio": (b"d", headers(x=b"y", apicurio__value__globalId=bytes(7) + b"\7")),
    "none": (b"d", headers(x=b"y")),
}
WANTED = {"four": "id", "eight": "id", "guid": "guid", "header": "guid", "apicurio": "globalId"}


@given(st.lists(st.sampled_from(sorted(FORMS)), min_size=1, max_size=30))
def test_all_layouts_of_ids_can_be_mixed(forms: list[str]) -> None:
    made = with_headers(records(*((None, FORMS[form][0]) for form in forms)), *(FORMS[form][1] for form in forms))
    poison: list[Poison] = []
    index = np.arange(len(forms))
    found = {int(p): f.identity.kind for f in frames(made, "value", index, poison) for p in f.positions}
    assert found == {i: WANTED[form] for i, form in enumerate(forms) if form != "none"}
    assert {p.index for p in poison} == {i for i, form in enumerate(forms) if form == "none"}
    assert names_schema(made, "value", index).tolist() == [form != "none" for form in forms]


def test_guids_and_ids_in_headers_are_requested_by_their_interface() -> None:
    pytest.importorskip("fastavro")
    schema = '{"type":"record","name":"Row","fields":[{"name":"id","type":"int"}]}'
    answers = {
        f"/apis/ccompat/v7/schemas/guids/{GUID}": (200, {"schema": schema}),
        "/apis/registry/v2/ids/globalIds/5": (200, schema),
        # No answer about references, as of registries of before 2.3.
    }
    with registry_that_answers(answers) as address:
        given = {"bootstrapServers": "127.0.0.1:1", "topics": ["t"], "format": "upsert-avro"}
        config = KafkaConfig.model_validate({**given, "schemaRegistryUrl": f"{address}/apis/ccompat/v7"})
        made = with_headers(
            records((b'{"k":1}', b"\2"), (b'{"k":2}', b"\4"), (b'{"k":3}', b"\6")),
            headers(__value_schema_id=V1),
            headers(apicurio__value__globalId=bytes(7) + b"\5"),
            headers(apicurio__value__globalId=bytes(7) + b"\6"),
        )
        decoded = make_format(config).decode(made)
    assert sorted(row["id"] for part in decoded.parts for row in part.row.to_pylist()) == [1, 2]
    assert [(p.index, p.code) for p in decoded.poison] == [(2, "RPL-3930")]
    assert str(SchemaId("globalId", "6")) in decoded.poison[0].reason
