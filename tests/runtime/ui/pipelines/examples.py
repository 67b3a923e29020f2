"""Pipelines and tables as the service shows them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

Json = dict[str, Any]
INJECTED = "<img src=x onerror=alert(1)>"
CONFIG: Json = {
    "name": "shop",
    "stages": [
        {
            "name": "source",
            "plugin": {
                "name": "postgres",
                "type": "cdcSource",
                "properties": {"host": "db.example", "database": "shop", "password": "${secure(shop)}"},
            },
        },
        {"name": "target", "plugin": {"name": "delta", "type": "cdcTarget", "properties": {"path": "s3://lake/shop"}}},
    ],
    "connections": [{"from": "source", "to": "target"}],
    "tables": [{"table": "public.*"}],
}


def ago(seconds: float) -> str:
    """A time in the past."""
    return (datetime.now(UTC) - timedelta(seconds=seconds)).isoformat(timespec="milliseconds")


def item(name: str, **changes: Any) -> Json:
    """A pipeline that runs well."""
    return {
        "namespace": "default",
        "name": name,
        "created": ago(86_400 * 9),
        "updated": ago(3600),
        "wanted": "started",
        "state": "running",
        "configVersion": 3,
        "runningVersion": 3,
        "started": ago(3600),
        "ended": None,
        "exitCode": None,
        "restarts": 0,
        "nextStart": None,
        "phase": "streaming",
        "statusAt": ago(2),
        "worstLagSeconds": 1.4,
        "tables": {"REPLICATING": 12},
        "heldBytes": 48_000_000,
        "secondsLeft": None,
        "rowsPerSecond": 1234.5,
        "lastError": None,
        "verifiedAt": ago(4000),
        "sloBroken": False,
        "sloRatio": 0.99973,
        "requestsWaiting": 0,
        "paused": False,
        "needsYou": [],
        **changes,
    }


def row(name: str, schema: str = "public", **changes: Any) -> Json:
    """A table that is replicated."""
    return {
        "id": f'shop.{schema}."{name}"' if not name.isidentifier() else f"shop.{schema}.{name}",
        "name": f"{schema}.{name}",
        "database": "shop",
        "schema": schema,
        "table": name,
        "state": "REPLICATING",
        "rows": 120_345,
        "snapshotPercent": None,
        "lagSeconds": 1.2,
        "rowsPerSecond": 42.0,
        "copied": 10_000,
        "inserts": 100_000,
        "updates": 20_000,
        "deletes": 345,
        "error": None,
        "lastError": None,
        "failingSince": None,
        "copyAgainAt": None,
        "pause": None,
        "waitsFor": None,
        "rowsPutAside": 0,
        "verifiedAt": ago(4000),
        "verifyResult": "equal",
        "maintenance": {"compact": {"doneAt": ago(1000), "error": None}},
        **changes,
    }


FAULT: Json = {
    "code": "RPL-5010",
    "message": "column price of public.orders: 12345.678 does not fit NUMERIC(6,2)",
    "hint": "widen the column, then `replicator table retry NAME public.orders`",
}


def status(seconds: float = 0.0, **changes: Any) -> Json:
    """What a run writes."""
    return {
        "schema": "replicator.state/v1",
        "name": "shop",
        "phase": "streaming",
        "updated": ago(-seconds),
        "sourceState": "OK",
        "sourceError": None,
        "lastError": None,
        "offset": "0/1A2B3C4D",
        "lagSeconds": 1.4,
        "readLagSeconds": 0.6,
        "currentAt": ago(1),
        "rowsPerSecond": 1234.5,
        "source": {
            "answeredAt": ago(1),
            "waitingBytes": 1_200_000,
            "waitingChanges": None,
            "heldBytes": 48_000_000,
            "heldLimitBytes": 10_000_000_000,
            "secondsLeft": 86_000,
            "limitedBy": "max_slot_wal_keep_size",
        },
        **changes,
    }


def fleet() -> list[Json]:
    """One of each state."""
    unknown = {"worstLagSeconds": None, "sloRatio": None}
    copies = {"SNAPSHOTTING": 4, "PENDING": 120, "REPLICATING": 8}
    return [
        item(
            "shop",
            tables={"REPLICATING": 11, "FAILING": 1},
            lastError={**FAULT, "table": "shop.public.orders"},
            needsYou=[reason("tablesFailing", "1 fail: public.orders")],
        ),
        item("billing"),
        item("crm", phase="snapshot", tables=copies, rowsPerSecond=182_000, verifiedAt=None, **unknown),
        paused(),
        failed(),
        item(
            "archive-2019-of-the-very-long-named-department",
            state="stopped",
            wanted="stopped",
            phase="done",
            rowsPerSecond=None,
            **unknown,
        ),
        item("inventory", state="backoff", phase="retrying", exitCode=4, restarts=3),
        item("decisions", needsYou=[reason("decisions", "2 changes of structure wait for a decision", count=2)]),
    ]


def reason(kind: str, text: str, *, count: int = 1, code: str = "") -> Json:
    """Why a pipeline needs someone."""
    return {"reason": kind, "text": text, "count": count, "code": code}


def paused() -> Json:
    """A pipeline that someone has paused, whose objective is broken."""
    return item(
        "warehouse",
        phase="paused",
        paused=True,
        worstLagSeconds=7300,
        rowsPerSecond=0,
        heldBytes=8_100_000_000,
        sloBroken=True,
        sloRatio=0.91,
        needsYou=[reason("paused", "it is paused by ana; the source has to keep its log")],
    )


def failed() -> Json:
    """A pipeline whose source has lost its log."""
    code, message = "RPL-3204", "the slot replicator_events has lost its log"
    hint = "`replicator heal PIPELINE` or `replicator reset PIPELINE`"
    return item(
        "events",
        state="failed",
        phase="failed",
        exitCode=7,
        worstLagSeconds=None,
        rowsPerSecond=None,
        lastError={"code": code, "message": message, "hint": hint, "table": ""},
        needsYou=[reason("failed", message, code=code)],
    )


def tables() -> list[Json]:
    """One of each state, and one with a name that is no name."""
    return [
        row(
            "orders",
            state="FAILING",
            error=FAULT,
            failingSince=ago(700),
            lagSeconds=700.0,
            rowsPerSecond=0.0,
            copyAgainAt=ago(-600),
            verifyResult="different",
        ),
        row("customers"),
        row(
            "order_lines",
            state="SNAPSHOTTING",
            snapshotPercent=37.5,
            rows=3_000_000,
            lagSeconds=None,
            verifiedAt=None,
            inserts=None,
        ),
        row(
            "payments",
            state="PAUSED",
            pause={
                "since": ago(5000),
                "resuming": False,
                "copiedAgain": False,
                "laneRows": 1234,
                "laneBytes": 99_000,
                "asks": "drop column note",
                "failed": False,
                "triedAgainAt": None,
                "laneSince": None,
                "inLog": False,
            },
            lagSeconds=5000.0,
        ),
        row(INJECTED),
        row(
            "refunds",
            state="PENDING",
            rows=0,
            lagSeconds=None,
            rowsPerSecond=None,
            verifiedAt=None,
            waitsFor="the source does not list it",
        ),
        *[row(f"products_{number}") for number in range(40)],
    ]


ANSWERS: Json = {
    "/activity": [
        {
            "kind": "request",
            "id": "01K",
            "at": ago(60),
            "by": "ana",
            "what": "table.pause",
            "state": "done",
            "text": "public.payments is paused",
            "tables": ["public.payments"],
        },
        {
            "kind": "request",
            "id": "01J",
            "at": ago(90),
            "by": "ana",
            "what": "table.resync",
            "state": "waiting",
            "tables": ["public.orders"],
        },
        {
            "kind": "job",
            "id": "01H",
            "at": ago(4000),
            "by": "ben",
            "what": "verify",
            "state": "failed",
            "text": "RPL-5030: 3 rows differ",
            "hint": "`replicator verify NAME --repair`",
        },
        {
            "kind": "change",
            "state": "200",
            "id": "01G",
            "at": ago(90_000),
            "by": "ben",
            "what": "putPipeline",
            "text": "version 3",
        },
    ],
    "/schemaChanges": [
        {
            "id": "3f0c9a51be",
            "database": "shop",
            "schema": "public",
            "table": "payments",
            "name": "public.payments",
            "operation": "ALTER_TABLE",
            "text": "drop column note",
            "position": "0/1A2B",
            "since": ago(5000),
            "onlyApproved": "",
        },
        {
            "id": "3f0c9a51bf",
            "database": "shop",
            "schema": "public",
            "table": "items",
            "name": "public.items",
            "operation": "ALTER_TABLE",
            "text": "type of price: NUMERIC(6,2) to TEXT",
            "position": "0/1A2C",
            "since": ago(500),
            "onlyApproved": "rows that follow do not fit without it",
        },
    ],
    "/offsets": [
        {
            "name": f"offset.{number:020d}",
            "savedAt": ago(60 * (10 - number)),
            "sequenceNumber": number * 1000,
            "epoch": 3,
            "offset": f"0/1A2B{number:04X}",
            "problem": None,
        }
        for number in range(9, 0, -1)
    ],
    "/logs": [
        {
            "ts": ago(number * 7),
            "level": ("info", "warning", "error", "info")[number % 4],
            "event": ("batch.committed", "table.failing", "source.lost", "status")[number % 4],
            "table": "public.orders",
            "rows": number,
            "code": "RPL-5010",
        }
        for number in range(60)
    ],
    "/lineage": [
        {
            "database": "shop",
            "schema": "public",
            "table": "orders",
            "source": {"namespace": "postgres://db.example:5432", "name": "shop.public.orders"},
            "target": {"namespace": "s3://lake", "name": "shop/public/orders"},
            "columns": [
                {"source": "id", "sourceType": "int8", "target": "id", "type": "int64"},
                {"source": "note", "sourceType": "text", "target": "note", "type": "string"},
            ],
        }
    ],
    "/tokens": [
        {
            "id": "01A",
            "label": "ana's laptop",
            "role": "admin",
            "namespace": "*",
            "created": ago(90_000),
            "expires": None,
            "revoked": None,
        },
        {
            "id": "01B",
            "label": "ci",
            "role": "operator",
            "namespace": "default",
            "created": ago(900_000),
            "expires": ago(-900_000),
            "revoked": ago(10),
        },
    ],
    "/audit": [
        {
            "id": f"01{number}",
            "at": ago(number * 100),
            "namespace": "default",
            "by": "ana's laptop (01A)",
            "operation": "askForTables",
            "path": "/v1/contexts/default/pipelines/shop/tables/pause",
            "status": 202,
            "code": "",
        }
        for number in range(5)
    ],
}
"""Answers of what is read beside the stream."""
