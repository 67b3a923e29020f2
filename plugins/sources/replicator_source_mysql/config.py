"""Settings of the source, as in the pipeline JSON (camelCase there)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field

from replicator_sdk.config import OutOfRange, PluginConfig, Secret, SettingEdit
from replicator_sdk.discovery.assessment import Severity

SslMode = Literal["disable", "require", "verify-ca", "verify-full"]
ZeroDates = Literal["null", "fail", "text"]
Cascades = Literal["fail", "ignore"]


_SERVER: Final = SettingEdit(
    "the saved offset is looked for there: another server than before is refused",
    "nothing, if it is the same server or a replica of it under another name; else put it back",
    Severity.WARNING,
    "RPL-3783",
    checked_at_start=True,
)


class MySqlConfig(PluginConfig):
    """Settings of the `mysql` source, for MySQL and MariaDB; nothing else is passed on to the driver.

    Attributes:
        host: Host name or address.
        port: TCP port.
        user: An account with REPLICATION SLAVE, REPLICATION CLIENT (MariaDB: BINLOG MONITOR) and SELECT on the tables.
        password: Its password.
        ssl_mode: `verify-full` unless another mode is set, also for a loopback host.
        ssl_root_cert: File with the certificate authority; the system's own when left out.
        server_id: The replica's server id, unique among everything that reads this server's binlog. Derived from
            namespace and name when left out.
        zero_dates: What happens to zero and partial dates (`0000-00-00`, `2024-00-10`): NULL, counted in
            `source.zero_dates`; an error; or every date and datetime column arrives as text.
        out_of_range: What happens to other values the standard types cannot hold; the target's setting when left out.
        foreign_key_cascades: Whether tables may be captured whose rows a foreign key changes (ON DELETE CASCADE, SET
            NULL) on a server that leaves such changes out of its binlog.
        heartbeat_interval_seconds: How often the offset of an idle source advances.
        connect_timeout_seconds: How long one attempt to connect may take.
        chunk_rows: About how many rows one chunk of a snapshot has.
    """

    edits: ClassVar[Mapping[str, SettingEdit]] = {
        "host": _SERVER,
        "port": _SERVER,
        "zeroDates": SettingEdit(
            "values that are read from the next run on follow it; to or from `text` the columns of dates have other types, and their tables stop at the next change",
            "put it back; or copy tables with dates again: `replicator table resync NAME TABLE… --in-place`",
            Severity.WARNING,
        ),
        "foreignKeyCascades": SettingEdit("tables with cascades are checked by it when the next run begins"),
        "outOfRange": SettingEdit("values that are read from the next run on follow it; the others stay as they are"),
    }

    host: str = Field(min_length=1)
    port: int = Field(default=3306, ge=1, le=65535)
    user: Annotated[str, Field(min_length=1)]
    password: Secret = Secret("")
    ssl_mode: SslMode = "verify-full"
    ssl_root_cert: Path | None = None
    server_id: int | None = Field(default=None, ge=1, le=2**32 - 1)
    zero_dates: ZeroDates = "null"
    out_of_range: OutOfRange | None = None
    foreign_key_cascades: Cascades = "fail"
    heartbeat_interval_seconds: float = Field(default=1.0, gt=0, le=600)
    connect_timeout_seconds: int = Field(default=10, ge=2, le=300)
    chunk_rows: int = Field(default=250_000, ge=1_000)
