"""Parses the rows of a stretch of a binlog with `mysql-replication`'s own reader and drops them.

Usage: rowparse.py ACCOUNT DATABASE TABLE FILE POSITION, where ACCOUNT is host, port, user and password as JSON. Reads to the
end of the log. Prints "changes seconds".
"""

from __future__ import annotations

import json
import sys
import time

from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.row_event import DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent

_SERVER_ID = 4_000_000_001


def main(account: str, database: str, table: str, file: str, position: str) -> None:
    """Read to the end of the log and count."""
    started = time.monotonic()
    stream = BinLogStreamReader(
        connection_settings=json.loads(account),
        server_id=_SERVER_ID,
        log_file=file,
        log_pos=int(position),
        resume_stream=True,
        blocking=False,
        only_events=[WriteRowsEvent, UpdateRowsEvent, DeleteRowsEvent],
        only_schemas=[database],
        only_tables=[table],
    )
    changes = sum(len(event.rows) for event in stream)
    seconds = time.monotonic() - started
    stream.close()
    print(changes, seconds)


if __name__ == "__main__":
    main(*sys.argv[1:])
