"""`replicator verify --repair`: has the rows that differ written again, and compares the tables once more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from replicator_runtime.cli.report import Report
    from replicator_runtime.engine.verification.verify import Verified
    from replicator_sdk import TableId
    from replicator_sdk.errors import ReplicatorError


@dataclass(frozen=True, slots=True)
class Repaired:
    """What was done of a table.

    Attributes:
        found: What the repair says: `written`, `deleted` and `position`, or `error`; None when it was not tried.
        error: Why it was not tried.
        after: What the comparison afterwards found; None when there was none.
    """

    found: Mapping[str, Any] | None
    error: ReplicatorError | None = None
    after: Verified | None = None

    @property
    def is_done(self) -> bool:
        """Whether all rows that differed were written or deleted, and none differs now as far as is known."""
        if self.found is None or self.found.get("error"):
            return False
        return self.after is None or self.after.found is None or self.after.found.is_equal

    @property
    def is_equal(self) -> bool:
        """Whether a comparison afterwards says that no row differs."""
        return self.after is not None and self.after.found is not None and self.after.found.is_equal

    def to_json(self) -> dict[str, Any]:
        """For `--json`."""
        from replicator_runtime.cli.report import error_json

        if self.error is not None:
            return {"done": False, "error": error_json(self.error)}
        found = {key: value for key, value in (self.found or {}).items() if key not in {"database", "schema", "table"}}
        left = self.after.found if self.after is not None else None
        counts = {} if left is None else {"left": left.missing + left.surplus + left.different}
        return {"done": self.is_done, **found, **counts}


class Repairing:
    """Repairs what a comparison found; used once.

    Args:
        report: Gets what is said.
        name: The pipeline's file.
        namespace: As for `outcome_of`.
        base: As for `outcome_of`.
        timeout: How long to wait for the outcome.
    """

    def __init__(self, report: Report, name: str, namespace: str, base: str | None, timeout: float) -> None:
        self._report = report
        self._name, self._namespace, self._base, self._timeout = name, namespace, base, timeout

    def run(self, found: Sequence[Verified], *, yes: bool) -> dict[TableId, Repaired]:
        """Say what will be changed, ask, and have it done by whoever has the lease.

        Returns:
            For each table that differs what was done, or why nothing was.

        Raises:
            NeedsUserError: RPL-1228 when it was not confirmed; nothing was changed.
            ReplicatorError: As `outcome_of`.
        """
        from replicator_runtime.cli.confirmation import confirm
        from replicator_runtime.cli.control import outcome_of
        from replicator_runtime.engine.repair.request_keys import REPAIR, requests_of
        from replicator_sdk import TableId

        different = [one for one in found if one.found is not None and not one.found.is_equal]
        done = {one.table: Repaired(None, error) for one in different if (error := _why_not(one)) is not None}
        wanted = [one for one in different if one.table not in done]
        if not wanted:
            return done
        if not yes:
            confirm("\n".join(map(_plan, wanted)))
        keys = {one.table: one.found.differing for one in wanted if one.found is not None}
        for arguments in requests_of(keys):
            outcome = outcome_of(
                self._report, self._name, self._namespace, self._base, REPAIR, arguments, timeout=self._timeout
            )
            results = () if outcome is None else outcome.data.get("tables", ())
            done |= {TableId.from_json(result): Repaired(result) for result in results}
        return done


def names_of(done: Mapping[TableId, Repaired]) -> list[str]:
    """The names of the tables to compare again, as commands take them."""
    from replicator_runtime.engine.control.table_names import quoted_name

    return [quoted_name(table) for table, repaired in done.items() if repaired.is_done]


def _why_not(one: Verified) -> ReplicatorError | None:
    """Why the rows of a table that differs cannot be repaired one by one."""
    from replicator_runtime.engine.repair.differences import too_many
    from replicator_runtime.engine.repair.request_keys import KEYS_AT_MOST
    from replicator_runtime.engine.repair.table_repair import keyless

    assert one.found is not None
    keys = one.found.differing
    if keys is None:
        return keyless(str(one.table))
    return too_many(str(one.table), len(keys)) if len(keys) > KEYS_AT_MOST else None


def _plan(one: Verified) -> str:
    assert one.found is not None
    found = one.found
    parts = (
        (found.missing, "missing rows are written"),
        (found.different, "different rows are written again"),
        (found.surplus, "surplus rows are deleted"),
    )
    changes = ", ".join(f"{count:,} {what}" for count, what in parts if count)
    return f"{one.table}: {changes}; no table advances while its {found.rows_source:,} rows are read"
