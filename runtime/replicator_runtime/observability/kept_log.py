"""Keeps a run's log lines, and what Spark says, beside the state: `replicator logs` reads them while the run works and afterwards."""

from __future__ import annotations

import contextlib
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from replicator_runtime.observability.kept_lines import KeptLines
from replicator_runtime.observability.logs import get_logger, is_configured, kept
from replicator_runtime.observability.redaction import redact
from replicator_runtime.spark.console import spark_lines_to

if TYPE_CHECKING:
    from collections.abc import Iterator

    from replicator_runtime.config.sections.logs import LogsConfig
    from replicator_state import LogFolder

LAST_LINES_SECONDS: Final = 5.0
"""How long the end of a run waits for its last lines to be written, when the store does not answer."""


@contextlib.contextmanager
def keeping_log(folder: LogFolder, settings: LogsConfig, run_id: str) -> Iterator[None]:
    """Keep what this process logs, within the block; all of it is written when the block has ended, unless the store fails.

    Nothing is kept when the settings say so, or in a process that has not set up its logging.

    Args:
        folder: Where.
        settings: How much, and from which level on.
        run_id: The run.
    """
    if not settings.keep or not is_configured():
        yield
        return
    most, days = settings.max_bytes, settings.max_days
    lines = KeptLines(folder, "run", run_id, max_bytes=most, max_days=days, lost=_lost_lines)
    spark = KeptLines(folder, "spark", run_id, max_bytes=most, max_days=days, lost=_lost_spark_lines)
    try:
        with kept(settings.level, lines.add), spark_lines_to(lambda line: spark.add(_without_secrets(line))):
            yield
    finally:
        written = [one.close(LAST_LINES_SECONDS) for one in (lines, spark)]
        if not all(written):
            get_logger(__name__).warning("log.not_kept", place=folder.place)


def _without_secrets(line: bytes) -> bytes:
    return redact(line.decode("utf-8", "replace")).encode()


def _lost_lines(count: int) -> bytes:
    now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
    line = {"ts": now, "level": "warning", "event": "log.lines_lost", "lines": count, "logger": __name__}
    return json.dumps(line).encode() + b"\n"


def _lost_spark_lines(count: int) -> bytes:
    return b"%d lines were lost here, since they could not be written\n" % count
