"""Settings of the source, as the pipeline JSON has them (in camelCase)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field

from replicator_sdk.config import OutOfRange, PluginConfig, Secret, SettingEdit
from replicator_sdk.discovery.assessment import Severity

SslMode = Literal["disable", "require", "verify-ca", "verify-full"]
"""libpq's modes without `allow` and `prefer`, which fall back to plain text without an error."""

Identifier = Annotated[
    str,
    Field(min_length=1, max_length=63, pattern=r"^[^\x00]+$", json_schema_extra={"rule": "must not hold a zero byte"}),
]


_SERVER: Final = SettingEdit(
    "the saved offset is looked for there: another database than before is refused (RPL-7140)",
    "nothing, if it is the same database under another name; else put it back",
    Severity.WARNING,
    checked_at_start=True,
)


class PostgresConfig(PluginConfig):
    """Settings of the `postgres` source; nothing else is passed to the driver.

    Attributes:
        host: Host name, address, or the folder of a Unix socket.
        port: TCP port.
        database: The database; one pipeline reads one database.
        user: A role with LOGIN and REPLICATION, and SELECT on the tables.
        password: Its password.
        ssl_mode: `verify-full` unless another mode is given, also for a loopback host.
        ssl_root_cert: File with the certificate authority; the system's own when left out.
        publication: Name of the publication; used as it is when it exists, else created. Derived from the pipeline's
            namespace and name when left out.
        slot: Name of the replication slot; same rules.
        out_of_range: What happens to infinite dates, years outside 1 to 9999 and NaN decimals; the target's setting when
            left out.
        heartbeat_interval_seconds: How often the offset of an idle source advances.
        connect_timeout_seconds: How long one attempt to connect may take.
        chunk_rows: Approximate number of rows of one snapshot chunk.
        max_held_wal_bytes: How much WAL the slot may hold back at the source before a warning; None for no warning.
    """

    edits: ClassVar[Mapping[str, SettingEdit]] = {
        "host": _SERVER,
        "port": _SERVER,
        "database": _SERVER,
        "slot": SettingEdit(
            "the log is read on by the other slot where that has all after the saved offset; else the run ends before it reads. The former slot goes on holding the log",
            "put it back; or make the other slot a copy of the former one (pg_copy_logical_replication_slot), and drop that one once no pipeline uses it",
            Severity.WARNING,
            "RPL-3220",
            checked_at_start=True,
        ),
        "publication": SettingEdit(
            "every table is copied again, since the other publication may not have had it at the saved offset; a selected table that is not in it stops, and a publication"
            " that was created after that offset cannot be read by before PostgreSQL 18",
            "put it back; or let the other one have the same tables, and drop the former one then",
            Severity.WARNING,
            "RPL-3606",
        ),
        "outOfRange": SettingEdit("values that are read from the next run on follow it; the others stay as they are"),
    }

    host: str = Field(min_length=1)
    port: int = Field(default=5432, ge=1, le=65535)
    database: Identifier
    user: Identifier
    password: Secret = Secret("")
    ssl_mode: SslMode = "verify-full"
    ssl_root_cert: Path | None = None
    publication: Identifier | None = None
    slot: str | None = Field(
        default=None,
        pattern=r"^[a-z0-9_]{1,63}$",
        json_schema_extra={"rule": "must hold only lower-case letters, digits and _, 63 at most"},
    )
    out_of_range: OutOfRange | None = None
    heartbeat_interval_seconds: float = Field(default=1.0, gt=0, le=600)
    connect_timeout_seconds: int = Field(default=10, ge=2, le=300)
    chunk_rows: int = Field(default=250_000, ge=1_000)
    max_held_wal_bytes: int | None = Field(default=None, ge=1)
