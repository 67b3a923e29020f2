"""The command `table.repair`: rows that a comparison found different are written again as the source has them."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import structlog

from replicator_runtime.engine.control.table_commands import Done, Work
from replicator_runtime.engine.repair.differences import too_many
from replicator_runtime.engine.repair.request_keys import KEYS_AT_MOST, REPAIR, keys_of
from replicator_runtime.engine.repair.table_repair import TableRepair
from replicator_runtime.engine.run_state.unknown_errors import unexpected
from replicator_sdk.errors import FencedError, NeedsUserError, ReplicatorError, RetryableError
from replicator_state import check_known_identity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from replicator_runtime.engine.control.control import Command
    from replicator_runtime.engine.lifecycle.table_lifecycle import TableLifecycle
    from replicator_runtime.engine.tables.table_store import TableRecord
    from replicator_state import Request

log = structlog.get_logger()


def repair(lifecycle: TableLifecycle, request: Request) -> Work:
    """`table.repair`: repair tables one after the other; one that cannot be repaired does not keep the others from it.

    Raises:
        NeedsUserError: RPL-1220 for a table that is not known, RPL-1225 for another request, RPL-1376 for too many rows.
    """
    wanted: list[tuple[TableRecord, Any]] = []
    for table, keys in keys_of(request.arguments).items():
        record = lifecycle.records.get(table)
        if record is None or lifecycle.run.pipeline.selection.matches(table) is None or not record.schemas:
            raise NeedsUserError(
                f"{table} is no table of the pipeline",
                code="RPL-1220",
                hint="`replicator status` lists the tables of the pipeline",
                table=str(table),
            )
        if len(keys) > KEYS_AT_MOST:
            raise too_many(str(table), len(keys))
        wanted.append((record, keys))

    def carry_out() -> Done:
        """All of them; errors are in what is returned, since the next try would not be another one."""
        found = [_repaired(lifecycle, record, keys) for record, keys in wanted]
        return Done(tuple(_line(one) for one in found), {"tables": found})

    return Work((), carry_out)


def _repaired(lifecycle: TableLifecycle, record: TableRecord, keys: Any) -> dict[str, Any]:
    """What was done of one table, or why not.

    Raises:
        FencedError: When a newer run has taken over.
        RetryableError: RPL-1377 when the run is to end; the next one does it.
    """
    if lifecycle.run.stop.is_set():
        raise RetryableError("the run ends", code="RPL-1377", hint="nothing to do: the next run does it")
    try:
        check_known_identity(lifecycle.run.store, lifecycle.run.pipeline.source.identity())
        done = TableRepair(lifecycle, record, lambda *_: keys).run()
    except FencedError:
        raise
    except Exception as failure:
        error = failure if isinstance(failure, ReplicatorError) else unexpected(failure, 1)
        log.debug("repair.failed", exc_info=failure)
        failed = {"code": error.code, "message": error.message, "hint": error.hint}
        return {**record.table.to_json(), "error": failed}
    return {**record.table.to_json(), "written": done.written, "deleted": done.deleted, "position": done.position}


def _line(found: Mapping[str, Any]) -> str:
    name = f"{found['schema'] or found['database']}.{found['table']}"
    if error := found.get("error"):
        return f"{name} was not repaired: {error['code']} {error['message']}"
    return f"{name}: {found['written']:,} rows written, {found['deleted']:,} deleted, as of {found['position']}"


REPAIRS: Mapping[str, Command] = MappingProxyType({REPAIR: repair})
"""The commands of this folder, for `Control`."""
