"""Every character of every character set is what real servers make of it; text in bulk is what a codec makes of each value."""

from __future__ import annotations

import codecs
from functools import partial

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replicator_sdk.errors import DataError, NeedsUserError
from replicator_source_mysql.definition import ColumnDefinition
from replicator_source_mysql.types.text_values import TextColumn
from replicator_source_mysql.types.values.charset import decode
from replicator_source_mysql.types.values.charset_tables import MULTI, SINGLE, UNITS, UPPER_HALF
from tests.plugins.sources.mysql.types.value_conversion import from_log, from_text, policy, target_of
from tests.services.mysql.client import rows
from tests.services.mysql.server import MysqlDatabase, MysqlServer

_SERVER_LOSES = {"big5": 7, "tis620": 9}
"""How many characters these sets have for which the servers print U+FFFD, so that nothing can be compared."""
_PYTHON = {"gbk": "gbk", "sjis": "shift_jis", "big5": "big5", "euckr": "cp949", "gb18030": "gb18030", "koi8r": "koi8_r",
           "cp1251": "cp1251", "utf16": "utf-16-be", "utf16le": "utf-16-le", "utf32": "utf-32-be", "utf8mb4": "utf-8"}  # fmt: skip


def column(charset: str) -> ColumnDefinition:
    return ColumnDefinition("v", "text", charset=charset)


def _values(value: pa.Array | list[bytes | None], charset: str) -> list[str | None]:
    array = value if isinstance(value, pa.Array) else pa.array(value, pa.binary())
    found = decode(array, charset, policy().of("v"))
    found.validate(full=True)
    return list(found.to_pylist())


@pytest.mark.parametrize("make", ["mysql", "mariadb"])
def test_every_character_is_the_servers(make: str, request: pytest.FixtureRequest) -> None:
    """All sequences of one and two bytes, and the three-byte ones of ujis; MariaDB does not have gb18030."""
    server: MysqlServer = request.getfixturevalue(make)
    with server.database("charset") as database:
        _write_sequences(database)
        for charset in [*SINGLE, *UPPER_HALF, *MULTI]:
            if charset == "gb18030" and server.is_mariadb:
                continue
            seen = _server_characters(database, charset)
            assert len(seen) > 90
            known = {sequence: character for sequence, character in seen.items() if character != "\ufffd"}
            assert len(seen) - len(known) <= _SERVER_LOSES.get(charset, 0)
            assert _values(list(known), charset) == list(known.values()), charset


def _write_sequences(database: MysqlDatabase) -> None:
    sequences = [bytes([byte]) for byte in range(256)]
    sequences += [bytes([high, low]) for high in range(0x81, 256) for low in range(0x40, 256)]
    sequences += [bytes([0x8F, high, low]) for high in range(0xA1, 255) for low in range(0xA1, 255)]
    database.execute("CREATE TABLE t (b varbinary(4))")
    for at in range(0, len(sequences), 10_000):
        values = ",".join(f"(x'{sequence.hex()}')" for sequence in sequences[at : at + 10_000])
        database.execute(f"INSERT INTO t VALUES {values}")


def _server_characters(database: MysqlDatabase, charset: str) -> dict[bytes, str]:
    """The sequences that are one character of the set for the server and come back as they were."""
    text = f"CONVERT(b USING {charset})"
    longest = 3 if charset == "ujis" else 2 if charset in MULTI else 1
    found = rows(
        database.server,
        f"SELECT HEX(b), HEX(CONVERT({text} USING utf8mb4)) FROM t "
        f"WHERE LENGTH(b) <= {longest} AND CAST({text} AS BINARY) = b AND CHAR_LENGTH({text}) = 1",
        database.name,
    )
    characters = {bytes.fromhex(written): bytes.fromhex(converted or "").decode() for written, converted in found}
    return {
        sequence: character
        for sequence, character in characters.items()
        if len(character) == 1 and (character != "?" or sequence == b"?")
    }


@settings(max_examples=30, deadline=None)
@given(st.data())
@pytest.mark.parametrize("charset", sorted(_PYTHON))
def test_a_column_decodes_as_its_values_do(charset: str, data: st.DataObject) -> None:
    """Control characters, which separate values inside, come out as they went in, also when all of them occur."""
    codec = _PYTHON[charset]
    point = st.characters(codec=codec, exclude_characters="¥‾" if charset == "sjis" else "") | st.sampled_from(
        [chr(byte) for byte in range(0x20)]
    )
    texts = data.draw(st.lists(st.none() | st.text(point).filter(lambda text: _round_trips(text, codec)), max_size=12))
    texts += data.draw(st.sampled_from([[], ["".join(map(chr, [*range(0x20), 0x7F]))] * 3]))
    values = [None if text is None else text.encode(codec) for text in texts]
    expected = [None if text is None else _as_mysql(text, charset) for text in texts]
    kind = column(charset)
    assert from_log(kind, 252, 2, values).to_pylist() == expected
    assert from_text(kind, values).to_pylist() == expected


def _round_trips(text: str, codec: str) -> bool:
    return codecs.decode(codecs.encode(text, codec), codec) == text


def _as_mysql(text: str, charset: str) -> str:
    return text.translate(MULTI[charset][1]) if charset in MULTI else text


@pytest.mark.parametrize(
    ("charset", "value"),
    [
        ("utf8mb4", b"secret \xff"), ("utf8mb4", b"secret \xc3"), ("ascii", b"secret \x80"), ("gbk", b"secret \x81"),
        ("sjis", b"secret \xfd"), ("tis620", b"secret \xdb"), ("utf16", b"\xd8\x00"), ("utf16", b"a"), ("ucs2", b"\xd8\x00\xdc\x00"),
        ("utf32", b"\x00\x11\x00\x00"), ("swe7", b"secret \x80"), ("geostd8", b"secret \x81"), ("ujis", b"secret \x8f\xa1"),
    ],
)  # fmt: skip
def test_bytes_that_are_no_text_are_an_error_that_keeps_them_to_itself(charset: str, value: bytes) -> None:
    for read in (partial(from_log, column(charset), 252, 2), partial(from_text, column(charset))):
        with pytest.raises(
            DataError, match=r"RPL-3733: column 'v' holds bytes that are no text .*shop\.orders"
        ) as caught:
            read([b"", None, value])
        assert "secret" not in str(caught.value)


@pytest.mark.parametrize("charset", sorted(UNITS.keys() - {"utf32", "ucs2"}))
def test_a_pair_of_surrogates_in_two_values_is_no_character(charset: str) -> None:
    high, low = "😀".encode(UNITS[charset][0])[:2], "😀".encode(UNITS[charset][0])[2:]
    assert _values([high + low], charset) == ["😀"]
    with pytest.raises(DataError, match="RPL-3733"):
        _values([high, low], charset)


@pytest.mark.parametrize("charset", ["eucjpms", "filename", ""])
def test_an_unknown_character_set_is_refused_by_name(charset: str) -> None:
    rules = policy()
    with pytest.raises(NeedsUserError, match=f"RPL-3732.*'{charset or '.none.'}'.*shop"):
        TextColumn(column(charset), target_of(column(charset), rules), rules)
