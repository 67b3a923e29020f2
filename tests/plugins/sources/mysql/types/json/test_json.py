"""JSON documents, and changes of them, against a real server."""

from __future__ import annotations

import json
import random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replicator_sdk.errors import DataError
from replicator_source_mysql.definition import ColumnDefinition
from replicator_source_mysql.types.json.binary import MalformedError, read_document
from replicator_source_mysql.types.json.diff import (
    DoesNotApplyError,
    apply_diffs,
    read_diffs,
    read_path,
    updated_documents,
)
from replicator_source_mysql.types.json.number import double_text
from tests.plugins.sources.mysql.types.binlog_file import logged_tables
from tests.plugins.sources.mysql.types.value_conversion import from_log, policy
from tests.services.mysql.client import texts
from tests.services.mysql.server import MysqlServer

_JSON = ColumnDefinition("v", "json")
_scalars = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text()
    | st.floats(allow_nan=False, allow_infinity=False)
)  # fmt: skip
_documents = st.recursive(
    _scalars, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=9), inner, max_size=5)
)


def test_random_documents_become_what_the_server_prints(mysql: MysqlServer) -> None:
    written: list[str] = []

    @settings(max_examples=300, deadline=None, database=None)
    @given(_documents)
    def draw(document: object) -> None:
        written.append(json.dumps(document))

    draw()
    with mysql.database("json") as database:
        with database.connect() as connection, connection.cursor() as cursor:
            cursor.execute("FLUSH BINARY LOGS")
            cursor.execute("CREATE TABLE t (id int PRIMARY KEY AUTO_INCREMENT, v json)")
            cursor.executemany("INSERT INTO t (v) VALUES (%s)", [[document] for document in written])
        printed = [row[0] for row in texts(mysql, "SELECT v FROM t ORDER BY id", database.name)]
        logged = [row[1] for row in logged_tables(mysql, database.name)["t"].inserted]
    assert len(logged) == len(written) >= 100
    assert [value.encode() for value in from_log(_JSON, 245, 4, logged).to_pylist()] == printed


@settings(max_examples=60, deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_double_reads_back_as_itself(number: float) -> None:
    text = double_text(number)
    assert float(text) == number
    assert set(text) & {".", "e"}
    assert text.startswith("-") == (str(number)[0] == "-")


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=60))
def test_damaged_documents_are_an_error_and_nothing_else(data: bytes) -> None:
    for damaged in (data, bytes([len(data) % 4]) + data):
        try:
            read_document(damaged)
        except MalformedError:
            continue


def test_a_damaged_document_is_named_by_column() -> None:
    with pytest.raises(DataError, match=r"RPL-3738: column 'v' holds bytes that are no binary JSON.*shop\.orders"):
        from_log(_JSON, 245, 4, [b"\x0c\x7fshort"])


# ------------------------------------------------------------ partial updates


_START = {"a": [1, 2, [3, {"deep": "x" * 40}]], "odd name": {"b": True, 'k"ö': 1}, "long": "y" * 300, "z": [], "n": -5}
_CHANGES = (
    "JSON_SET(v, '$.a[0]', 70000)",
    "JSON_REPLACE(v, '$.a[2][1].deep', 'short')",
    "JSON_SET(v, '$.new', JSON_OBJECT('p', 1.50))",
    "JSON_SET(v, '$.\"odd name\".b', false, '$.a[1]', 'text')",
    'JSON_SET(v, \'$."odd name"."k\\\\"ö"\', 2)',
    "JSON_REMOVE(v, '$.long')",
    "JSON_REMOVE(v, '$.a[1]')",
    "JSON_SET(v, '$.z[0]', 1)",
    "JSON_SET(v, '$.a[9]', 'appended')",
    "JSON_SET(JSON_REMOVE(v, '$.n'), '$.bb', 1)",
    "JSON_SET(v, '$.long', REPEAT('w', 299))",
)


def test_partial_updates_make_the_document_the_server_has(mysql: MysqlServer) -> None:
    picks = random.Random(7)
    with mysql.database("json") as database:
        with database.connect() as connection, connection.cursor() as cursor:
            cursor.execute("SET SESSION binlog_row_value_options = 'PARTIAL_JSON'")
            cursor.execute("FLUSH BINARY LOGS")
            cursor.execute("CREATE TABLE t (id int PRIMARY KEY AUTO_INCREMENT, v json, w json)")
            expected = []
            for change in [*_CHANGES, *picks.choices(_CHANGES, k=10)]:
                start = json.dumps(_START)
                cursor.execute("INSERT INTO t (v, w) VALUES (%s, '[1]')", [start])
                cursor.execute(f"UPDATE t SET v = {change}, w = '[2]' WHERE id = LAST_INSERT_ID()")
                cursor.execute("SELECT CAST(v AS CHAR) FROM t WHERE id = LAST_INSERT_ID()")
                expected += [row[0] for row in cursor.fetchall()]
        logged = logged_tables(mysql, database.name)["t"]
    assert len(logged.updated) == len(expected)
    partial = [place for place, columns in enumerate(logged.partial) if 1 in columns]
    assert len(partial) >= len(_CHANGES) - 2
    before = pa.array([logged.updated[place][0][1] for place in partial], pa.binary())
    after = pa.array([logged.updated[place][1][1] for place in partial], pa.binary())
    found = updated_documents(before, after, policy().of("v"))
    assert found.to_pylist() == [expected[place] for place in partial]


@pytest.mark.parametrize(
    ("path", "legs"),
    [
        ("$", ()), ("$.a", ("a",)), ("$[3].b", (3, "b")), ('$."odd \\"name"[0]', ('odd "name', 0)), ("$.ö1.$x", ("ö1", "$x")),
    ],
)  # fmt: skip
def test_a_path_is_parsed(path: str, legs: tuple[str | int, ...]) -> None:
    assert read_path(path) == legs


@pytest.mark.parametrize("path", ["", "a", "$.", "$[x]", "$.*", "$[*]", "$**.a", '$."open', "$ a"])
def test_what_is_no_path_is_an_error(path: str) -> None:
    with pytest.raises(MalformedError):
        read_path(path)


_DOCUMENT = bytes.fromhex("0001000c000b00010005070061")  # {"a": 7}


@pytest.mark.parametrize(
    ("diff", "text"),
    [
        (b"\x00\x03$.a\x02\x04\x01", '{"a": true}'),
        (b"\x01\x03$.b\x02\x04\x00", '{"a": 7, "b": null}'),
        (b"\x02\x03$.a", "{}"),
        (b"\x00\x01$\x02\x04\x02", "false"),
        (b"\x01\x04$.aa\x02\x04\x00\x01\x03$.b\x02\x04\x00", '{"a": 7, "b": null, "aa": null}'),
    ],
)
def test_changes_are_applied_in_their_order(diff: bytes, text: str) -> None:
    assert apply_diffs(_DOCUMENT, diff) == text


@pytest.mark.parametrize(
    "diff",
    [
        b"\x00\x03$.b\x02\x04\x01",
        b"\x01\x03$.a\x02\x04\x00",
        b"\x02\x03$.b",
        b"\x02\x04$[0]",
        b"\x02\x05$.a.b",
        b"\x02\x01$",
    ],
)
def test_a_change_at_a_path_that_does_not_exist_is_an_error(diff: bytes) -> None:
    with pytest.raises(DoesNotApplyError):
        apply_diffs(_DOCUMENT, diff)
    with pytest.raises(DataError, match=r"RPL-3739.*shop\.orders"):
        updated_documents(pa.array([_DOCUMENT]), pa.array([diff]), policy().of("v"))


def test_a_change_without_a_document_is_an_error() -> None:
    with pytest.raises(DataError, match="RPL-3739"):
        updated_documents(pa.array([None], pa.binary()), pa.array([b"\x02\x03$.a"]), policy().of("v"))


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=40))
def test_damaged_changes_are_an_error_and_nothing_else(data: bytes) -> None:
    try:
        list(read_diffs(data))
    except MalformedError:
        return
