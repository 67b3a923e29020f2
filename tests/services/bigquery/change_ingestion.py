"""BigQuery's change ingestion as its documentation describes it, before the emulator, which has none.

A small gRPC server takes `AppendRows`, refuses what the documentation forbids, keeps for each key the row with the highest
`_CHANGE_SEQUENCE_NUMBER` (of equal ones the last to arrive), keeps deletions as well, and brings what wins into the
emulator's table at once. It shares no code with the target: messages are read by Google's library, from the schema that was sent.

It proves that what is sent means what it should by these rules; not that the rules are BigQuery's.
"""

from __future__ import annotations

import base64
import json
import re
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any, Final

import grpc
from google.cloud.bigquery_storage_v1.types import AppendRowsRequest, AppendRowsResponse
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from tests.services.processes import LOOPBACK

_SERVICE: Final = "google.cloud.bigquery.storage.v1.BigQueryWrite"
_STREAM: Final = re.compile(r"projects/([^/]+)/datasets/([^/]+)/tables/([^/]+)/streams/_default")
_NUMBER: Final = re.compile(r"[0-9A-Fa-f]{1,16}(/[0-9A-Fa-f]{1,16}){0,3}")
_TYPE, _SEQUENCE = "_CHANGE_TYPE", "_CHANGE_SEQUENCE_NUMBER"
_LARGEST: Final = 10 << 20
_INVALID, _NOT_FOUND = 3, 5
_MISMATCH: Final = 11
_NESTED: Final = frozenset({"STRUCT", "RECORD"})
_NAMES: Final = {"INTEGER": "INT64", "FLOAT": "FLOAT64", "BOOLEAN": "BOOL"}
Sections = tuple[int, ...]


@dataclass(frozen=True)
class StreamFault:
    """What goes wrong with one connection.

    Attributes:
        after: How many requests are carried out before.
        code: The gRPC status it ends with.
        answer: The code that an answer says no with, instead of the connection ending.
        storage: BigQuery's own code beside it.
        refuses_rows: Whether an answer refuses the request's first row instead.
        hangs: Whether there is no answer and no end.
    """

    after: int = 0
    code: Any = grpc.StatusCode.UNAVAILABLE
    answer: int = 0
    storage: int = 0
    refuses_rows: bool = False
    hangs: bool = False


@dataclass(frozen=True)
class Change:
    """A row that arrived.

    Attributes:
        table: Dataset and table.
        kind: UPSERT or DELETE.
        number: Its sequence number, as it was sent.
        key: The key's values.
        row: All values that were sent.
    """

    table: tuple[str, str]
    kind: str
    number: str
    key: tuple[Any, ...]
    row: dict[str, Any]


class _RefusedError(Exception):
    """An answer that says no."""

    def __init__(self, code: int, message: str, storage: int = 0) -> None:
        super().__init__(message)
        self.code, self.message, self.storage = code, message, storage


@dataclass
class _Table:
    """What is known of one table beside its rows."""

    born: str
    newest: dict[tuple[Any, ...], Sections] = field(default_factory=dict)


class StreamingServer:
    """Listens on a free port from the start, until `close`.

    Args:
        rest_port: The emulator's REST port.
        gate_port: The gate's, which remembers what the emulator forgets of a table's definition.
    """

    def __init__(self, rest_port: int, gate_port: int) -> None:
        self._rest, self._gate = rest_port, gate_port
        self._tables: dict[tuple[str, str], _Table] = {}
        self._faults: list[StreamFault] = []
        self.chaos: Callable[[], StreamFault | None] | None = None
        self._lock = threading.Lock()
        self.changes: list[Change] = []
        self._server = grpc.server(ThreadPoolExecutor(8), options=[("grpc.max_receive_message_length", 2 * _LARGEST)])
        handler = grpc.stream_stream_rpc_method_handler(
            self._append,
            request_deserializer=AppendRowsRequest.deserialize,
            response_serializer=AppendRowsResponse.serialize,
        )
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(_SERVICE, {"AppendRows": handler}),)
        )
        self.port = int(self._server.add_insecure_port(f"{LOOPBACK}:0"))
        self._server.start()

    @property
    def endpoint(self) -> str:
        """Its address."""
        return f"http://{LOOPBACK}:{self.port}"

    def close(self) -> None:
        """Stop listening."""
        self._server.stop(None).wait()

    def plan(self, *faults: StreamFault) -> None:
        """Let the next connections meet these faults, one each."""
        self._faults.extend(faults)

    @property
    def pending(self) -> int:
        """How many planned faults have not happened."""
        return len(self._faults)

    def clear(self) -> None:
        """Forget arrivals and plans."""
        self._faults.clear()
        self.changes.clear()

    def _append(self, requests: Iterator[Any], context: Any) -> Iterator[Any]:
        fault = self._faults.pop(0) if self._faults else self.chaos() if self.chaos is not None else None
        connection: _Connection | None = None
        for number, request in enumerate(requests):
            if fault is not None and number >= fault.after:
                yield _planned(fault, context)
                return
            try:
                if connection is None:
                    connection = _Connection(request)
                with self._lock:
                    self._take(connection, request)
            except _RefusedError as no:
                yield _refusal(no)
                return
            yield AppendRowsResponse(append_result=AppendRowsResponse.AppendResult())
        if fault is not None:
            context.abort(fault.code, "planned: everything is carried out")

    def _take(self, connection: _Connection, request: Any) -> None:
        definition = self._definition(connection)
        table = self._tables.get(connection.table)
        if table is None or table.born != definition["creationTime"]:
            table = self._tables[connection.table] = _Table(definition["creationTime"])
        fields = {f["name"]: f for f in definition["schema"]["fields"]}
        key = definition.get("tableConstraints", {}).get("primaryKey", {}).get("columns", [])
        changes = connection.read(request, fields, key)
        winners: dict[tuple[Any, ...], Change] = {}
        for change in changes:
            number = _sections(change.number)
            if number >= table.newest.get(change.key, ()):
                table.newest[change.key] = number
                winners[change.key] = change
        self.changes.extend(changes)
        self._bring(connection.table, list(winners.values()), fields, key)

    def _definition(self, connection: _Connection) -> dict[str, Any]:
        dataset, name = connection.table
        path = f"/bigquery/v2/projects/{connection.project}/datasets/{dataset}/tables/{name}"
        try:
            with urllib.request.urlopen(f"http://{LOOPBACK}:{self._gate}{path}", timeout=60) as answer:
                found: dict[str, Any] = json.load(answer)
        except urllib.error.HTTPError as err:
            raise _RefusedError(_NOT_FOUND, "Requested entity was not found") from err
        return found

    def _bring(self, table: tuple[str, str], winners: list[Change], fields: dict[str, Any], key: list[str]) -> None:
        """Bring what won into the emulator's table."""
        if not winners:
            return
        place = f"`{table[0]}`.`{table[1]}`"
        same = " OR ".join(
            "(" + " AND ".join(f"`{k}` = {_literal(fields[k], v)}" for k, v in zip(key, w.key, strict=True)) + ")"
            for w in winners
        )
        self._post("queries", {"query": f"DELETE FROM {place} WHERE {same}", "useLegacySql": False})
        rows = [w.row for w in winners if w.kind == "UPSERT"]
        if rows and any(f["type"] in _NESTED or f.get("mode") == "REPEATED" for f in fields.values()):
            given = [{"json": {n: _json(fields[n], v) for n, v in row.items()}} for row in rows]
            answer = self._post(f"datasets/{table[0]}/tables/{table[1]}/insertAll", {"rows": given})
            assert not answer.get("insertErrors"), answer
        elif rows:  # insertAll takes the columns a table was made with, whatever ALTER TABLE did since
            listed = ", ".join(f"`{n}`" for n in fields)
            values = (", ".join(_literal(f, row.get(n)) for n, f in fields.items()) for row in rows)
            query = f"INSERT INTO {place} ({listed}) VALUES {', '.join(f'({one})' for one in values)}"
            self._post("queries", {"query": query, "useLegacySql": False})

    def _post(self, path: str, body: dict[str, Any]) -> Any:
        url = f"http://{LOOPBACK}:{self._rest}/bigquery/v2/projects/test/{path}"
        request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)


class _Connection:
    """One connection: its table and its schema come with the first request."""

    def __init__(self, first: Any) -> None:
        found = _STREAM.fullmatch(first.write_stream)
        if found is None:
            raise _RefusedError(_INVALID, "change ingestion needs the default stream")
        self.project = found[1]
        self.table = (found[2], found[3])
        schema = first.proto_rows.writer_schema.proto_descriptor
        if not schema.field:
            raise _RefusedError(_INVALID, "the first request has no protobuf schema")
        file = descriptor_pb2.FileDescriptorProto(name="rows.proto", syntax="proto2")
        file.message_type.add().CopyFrom(schema)
        pool = descriptor_pool.DescriptorPool()
        pool.Add(file)
        self._message = message_factory.GetMessageClass(pool.FindMessageTypeByName(schema.name))

    def read(self, request: Any, fields: dict[str, Any], key: list[str]) -> list[Change]:
        """The changes of a request, as far as the documentation allows them."""
        if not 0 < len(key) <= 16:
            raise _RefusedError(_INVALID, "change ingestion needs a primary key")
        if len(AppendRowsRequest.serialize(request)) > _LARGEST:
            raise _RefusedError(_INVALID, "the request is larger than 10 MB")
        unknown = {f.name for f in self._message.DESCRIPTOR.fields} - fields.keys() - {_TYPE, _SEQUENCE}
        if unknown:
            raise _RefusedError(_INVALID, "the table does not have all columns of the schema", _MISMATCH)
        return [self._change(row, fields, key) for row in request.proto_rows.rows.serialized_rows]

    def _change(self, serialized: bytes, fields: dict[str, Any], key: list[str]) -> Change:
        row = _plain(self._message.FromString(serialized))
        kind, number = row.pop(_TYPE, ""), row.pop(_SEQUENCE, "")
        if kind not in {"UPSERT", "DELETE"}:
            raise _RefusedError(_INVALID, "The given value is not a valid CHANGE_TYPE")
        if not _NUMBER.fullmatch(number):
            raise _RefusedError(_INVALID, "no valid _CHANGE_SEQUENCE_NUMBER")
        if kind == "UPSERT":  # an array that is absent is empty
            row = {n: [] for n, f in fields.items() if f.get("mode") == "REPEATED"} | row
        missing = [n for n, f in fields.items() if f.get("mode") == "REQUIRED" and n not in row]
        if missing or any(k not in row for k in key):
            raise _RefusedError(_INVALID, "a required column is missing")
        return Change(self.table, kind, number, tuple(row[k] for k in key), row)


def _plain(message: Any) -> dict[str, Any]:
    """What a message says; absent fields are left out."""
    return {
        f.name: [_plain(one) if f.message_type else one for one in value]
        if f.is_repeated
        else _plain(value)
        if f.message_type
        else value
        for f, value in message.ListFields()
    }


def _sections(number: str) -> Sections:
    """A sequence number to compare by: a section that is not there comes before any that is."""
    return tuple(int(section, 16) for section in number.split("/"))


def _json(kind: dict[str, Any], value: Any) -> Any:
    """A value as `insertAll` takes it."""
    if kind.get("mode") == "REPEATED":
        return [_json({**kind, "mode": "NULLABLE"}, one) for one in value]
    if kind["type"] in {"STRUCT", "RECORD"}:
        return {f["name"]: _json(f, value[f["name"]]) if f["name"] in value else None for f in kind["fields"]}
    if kind["type"] == "BYTES":
        return base64.b64encode(value).decode()
    if kind["type"] == "DATE":
        return _day(value)
    if kind["type"] == "TIMESTAMP":
        return _moment(value)
    return str(value) if isinstance(value, float) else value


def _literal(kind: dict[str, Any], value: Any) -> str:
    """A value in a statement."""
    if value is None:
        return "NULL"
    if kind["type"] == "BYTES":
        return f"FROM_HEX('{value.hex()}')"
    text = str(_json(kind, value))
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\r", "\\r")
    if kind["type"] == "STRING":
        return f"'{escaped}'"
    digits = f"({kind['precision']}, {kind.get('scale', 0)})" if kind.get("precision") else ""
    return f"CAST('{escaped}' AS {_NAMES.get(kind['type'], kind['type'])}{digits})"


def _day(days: int) -> str:
    return (date(1970, 1, 1) + timedelta(days=days)).isoformat()


def _moment(microseconds: int) -> str:
    days, rest = divmod(microseconds, 86_400_000_000)
    seconds, fraction = divmod(rest, 1_000_000)
    return f"{_day(days)} {seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{fraction:06}+00:00"


def _planned(fault: StreamFault, context: Any) -> Any:
    """The answer of a fault that gives one; else the connection ends."""
    while fault.hangs and context.is_active():
        time.sleep(0.1)
    if fault.refuses_rows:
        refused = {"index": 0, "code": 1, "message": "planned: top secret"}
        return AppendRowsResponse(error={"code": _INVALID, "message": "planned"}, row_errors=[refused])
    if fault.answer:
        return _refusal(_RefusedError(fault.answer, "planned: top secret", fault.storage))
    return context.abort(fault.code, "planned")


def _refusal(no: _RefusedError) -> Any:
    from google.cloud.bigquery_storage_v1.types import StorageError
    from google.protobuf.any_pb2 import Any as Anything
    from google.rpc.status_pb2 import Status

    status = Status(code=no.code, message=no.message)
    if no.storage:
        detail = StorageError(code=no.storage, entity="", error_message=no.message)
        kind = "type.googleapis.com/google.cloud.bigquery.storage.v1.StorageError"
        status.details.append(Anything(type_url=kind, value=StorageError.serialize(detail)))
    return AppendRowsResponse(error=status)
