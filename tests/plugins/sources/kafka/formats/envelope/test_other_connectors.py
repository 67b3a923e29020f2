"""Records of Debezium's Oracle and SQL Server connectors are read; `samples/README.md` describes their origin."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from replicator_sdk.config import OutOfRange
from replicator_sdk.errors import DataError
from replicator_sdk.event import DMLOperation
from replicator_sdk.schema import TableId
from replicator_source_kafka.config import KafkaConfig
from replicator_source_kafka.formats import Part, make_format
from replicator_source_kafka.records import Records
from tests.plugins.sources.kafka.formats.decoded import refused

MOMENT = dt.datetime(2024, 2, 29, 12, 34, 56, 789123)
SECOND, MILLIS = MOMENT.replace(microsecond=0), MOMENT.replace(microsecond=789000)
INSTANT = MOMENT.replace(tzinfo=dt.UTC)
CLOCK = dt.time(23, 59, 59)
SQL_SERVER: dict[str, tuple[str, Any]] = {
    "id": ("int32", 1),
    "c_bigint": ("int64", 2**63 - 1),
    "c_smallint": ("int16", -(2**15)),
    "c_tinyint": ("int16", 255),
    "c_bit": ("bool", True),
    "c_decimal": ("decimal(18,4)", Decimal("-12345678901234.5678")),
    "c_money": ("decimal(19,4)", Decimal("922337203685477.5807")),
    "c_smallmoney": ("decimal(10,4)", Decimal("-214748.3648")),
    "c_real": ("float32", float(np.float32(0.1))),
    "c_float": ("float64", 0.1),
    "c_date": ("date", MOMENT.date()),
    "c_time0": ("time", CLOCK),
    "c_time7": ("time", CLOCK.replace(microsecond=123456)),
    "c_datetime": ("timestamp", MOMENT.replace(microsecond=787000)),
    "c_smalldatetime": ("timestamp", MOMENT.replace(minute=35, second=0, microsecond=0)),
    "c_datetime2_3": ("timestamp", MILLIS),
    "c_datetime2_6": ("timestamp", MOMENT),
    "c_datetime2_7": ("timestamp", MOMENT),
    "c_datetimeoffset": ("instant", INSTANT),
    "c_char": ("string", "ab   "),
    "c_nvarchar": ("string", "naïve 東京 🎲"),
    "c_text": ("string", "x" * 100),
    "c_uuid": ("string", "6F9619FF-8B86-D011-B42D-00C04FC964FF"),
    "c_xml": ("string", '<a b="c"/>'),
    "c_varbinary": ("binary", b"\x00\xff\x10"),
}
ORACLE: dict[str, tuple[str, Any]] = {
    "ID": ("int32", 1),
    "C_NUMBER2": ("int8", -99),
    "C_NUMBER4": ("int16", 9999),
    "C_NUMBER18": ("int64", -(10**18) + 1),
    "C_NUMBER38": ("decimal(38,0)", Decimal("9" * 38)),
    "C_NUMBER10_2": ("decimal(10,2)", Decimal("12345678.90")),
    "C_NUMBER5_NEGATIVE": ("int32", 1234500),
    "C_NUMBER": ("string", "123.456789"),
    "C_FLOAT": ("string", "3.25"),
    "C_BINARY_FLOAT": ("float32", 1.5),
    "C_BINARY_DOUBLE": ("float64", -1.25e100),
    "C_VARCHAR2": ("string", "naïve 東京"),
    "C_NVARCHAR2": ("string", "東京"),
    "C_CHAR": ("string", "ab   "),
    "C_DATE": ("timestamp", SECOND),
    "C_TIMESTAMP3": ("timestamp", MILLIS),
    "C_TIMESTAMP6": ("timestamp", MOMENT),
    "C_TIMESTAMP9": ("timestamp", MOMENT),
    "C_TIMESTAMP_TZ": ("instant", INSTANT - dt.timedelta(hours=5, minutes=30)),
    "C_TIMESTAMP_LTZ": ("instant", INSTANT),
    "C_YEARS": ("int64", int(3.5 * 365.25 * 86_400_000_000)),
    "C_DAYS": ("int64", -((24 + 2) * 3600 + 3 * 60) * 10**6 - 4_560_000),
    "C_RAW": ("binary", b"\x00\xff\x10"),
    "C_CLOB": ("string", "a long text"),
    "C_BLOB": ("binary", b"\x00\xff\x10"),
}


@pytest.mark.parametrize(
    ("name", "table", "wanted"),
    [
        ("sqlserver", TableId("shop", "kinds", "dbo"), SQL_SERVER),
        ("oracle", TableId("ORCL", "KINDS", "SHOP"), ORACLE),
    ],
)
def test_every_type_has_its_standard_type_and_keeps_its_value(
    name: str, table: TableId, wanted: dict[str, tuple[str, Any]]
) -> None:
    part = read(name)
    assert part.schema.table == table
    assert part.schema.primary_key == (next(iter(wanted)),)
    types = {column.name: str(column.type) for column in part.schema.columns}
    for row in part.row.to_pylist()[:2]:  # of the snapshot, and the insert
        assert {column: (types[column], value) for column, value in row.items()} == wanted


@pytest.mark.parametrize("name", ["sqlserver", "oracle"])
def test_text_modes_keep_decimals_exactly(name: str) -> None:
    wanted = SQL_SERVER if name == "sqlserver" else ORACLE
    decimals = {column: value for column, (kind, value) in wanted.items() if kind.startswith("decimal")}
    row = read(f"{name}-connect-string-base64").row[1].as_py()
    assert {column: Decimal(row[column]) for column in decimals} == decimals


@pytest.mark.parametrize(
    "name", ["sqlserver", "oracle", "sqlserver-connect-string-base64", "oracle-connect-string-base64"]
)
def test_operations_and_commit_times_are_read(name: str) -> None:
    part = read(name)
    inserted, updated, deleted = DMLOperation.INSERT, DMLOperation.UPDATE, DMLOperation.DELETE
    assert part.op.to_pylist() == [inserted, inserted, updated, deleted]
    assert part.index.tolist() == [0, 1, 2, 3]
    assert set(part.timestamps.tolist()) == {1709210096789000}
    assert part.before is not None
    key = part.schema.primary_key[0]
    assert part.before[3].as_py()[key] in {1, "1"}


@pytest.mark.parametrize("name", ["oracle", "oracle-connect-string-base64"])
def test_large_objects_that_an_update_did_not_touch_are_unchanged(name: str) -> None:
    part = read(name)
    unchanged = {column: mask.to_pylist() for column, mask in part.unchanged.items()}
    assert unchanged == {column: [False, False, True, False] for column in ("C_CLOB", "C_BLOB")}


def test_excess_digits_are_cut_off_only_if_configured() -> None:
    with pytest.raises(DataError, match=r"RPL-3905.*c_time7.*digits beyond microseconds"):
        read("sqlserver", OutOfRange.FAIL)
    row = read("sqlserver", OutOfRange.NULL).row[0].as_py()
    assert {name: row[name] for name in ("c_time7", "c_datetime2_6")} == {"c_time7": None, "c_datetime2_6": MOMENT}


def read(name: str, rule: OutOfRange = OutOfRange.CLAMP) -> Part:
    """The changes in a file of samples of one table. Some have seven or nine digits of a second."""
    lines = (Path(__file__).parents[2] / f"samples/{name}.tsv").read_text().splitlines()
    topics, keys, values = zip(*(line.split("\t") for line in lines), strict=True)
    (topic,) = set(topics)
    numbers = np.arange(len(lines), dtype=np.int64)
    key = pa.array([key.encode() for key in keys], pa.binary())
    value = pa.array([value.encode() or None for value in values], pa.binary())
    decoded = make_format(KafkaConfig(bootstrap_servers="127.0.0.1:1", topics=(topic,)), rule).decode(
        Records(topic, 0, numbers, numbers, key, value)
    )
    assert list(decoded.poison) == []
    refused(decoded)
    (part,) = decoded.parts
    return part
