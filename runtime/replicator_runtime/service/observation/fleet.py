"""What the list of pipelines says of each one's state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from replicator_runtime.service.observation.state_reader import row_id
from replicator_sdk import TableId

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from replicator_runtime.service.observation.state_reader import Seen

_SHOWN: Final = 3


class Reason(BaseModel):
    """Why a pipeline needs someone."""

    model_config = ConfigDict(json_schema_serialization_defaults_required=True)

    reason: str = Field(
        description="`unreadable`, `failed`, `waits`, `processEnded`, `silent`, `sourceFailing`, `tablesFailing`, `decisions`,"
        " `rowsPutAside`, `differs`, `objectiveBroken` or `paused`."
    )
    text: str = Field(description="For people.")
    count: int = Field(default=1, description="How many tables, changes or rows.")
    code: str = Field(default="", description="The error's code, where it is one.")


class LastError(BaseModel):
    """An error of a pipeline or of one of its tables."""

    model_config = ConfigDict(json_schema_serialization_defaults_required=True)

    code: str = ""
    message: str
    hint: str = ""
    table: str = Field(default="", description="The table's id; empty for the pipeline.")


class Summary(BaseModel):
    """What is known of a pipeline's state."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, json_schema_serialization_defaults_required=True
    )

    phase: str | None = Field(
        default=None, description="Of its newest run; `reset` before the first one after a reset."
    )
    status_at: str | None = Field(default=None, description="When the run wrote this.")
    run_id: str | None = Field(default=None, description="The run that wrote it.")
    process_ended: bool = Field(default=False, description="Whether its process has ended without a last status.")
    silent_seconds: int | None = Field(default=None, description="For how long no process has written.")
    worst_lag_seconds: float | None = Field(default=None, description="The largest lag of the run and its tables.")
    tables: dict[str, int] = Field(default_factory=dict, description="How many tables are in which state.")
    held_bytes: int | None = Field(default=None, description="Log that the source keeps for it.")
    seconds_left: float | None = Field(default=None, description="Until the source gives up log that is needed.")
    rows_per_second: float | None = None
    last_error: LastError | None = None
    verified_at: str | None = Field(
        default=None, description="All of its compared tables were compared at this time or later."
    )
    slo_broken: bool = Field(default=False, description="Whether the error budget of its objective is spent.")
    slo_ratio: float | None = Field(default=None, description="The part of the time in which all tables were fresh.")
    requests_waiting: int = 0
    paused: bool = Field(default=False, description="Whether the whole replicator is paused.")
    needs_you: list[Reason] = Field(default_factory=list, description="Why someone should look; the worst first.")


def summary_of(seen: Seen) -> Summary:
    """What of it the list shows."""
    status: Mapping[str, Any] = seen.status or {}
    source: Mapping[str, Any] = status.get("source") or {}
    slo = seen.beside.slo or {}
    return Summary(
        phase=seen.phase,
        status_at=status.get("updated"),
        run_id=status.get("runId"),
        process_ended=seen.lives.process_ended,
        silent_seconds=round(seen.lives.silent_seconds) or None,
        worst_lag_seconds=_worst_lag(status),
        tables=dict(seen.tables),
        held_bytes=source.get("heldBytes"),
        seconds_left=source.get("secondsLeft"),
        rows_per_second=status.get("rowsPerSecond"),
        last_error=_last_error(seen),
        verified_at=min((at for one in _compared(seen) if (at := one.get("verifiedAt"))), default=None),
        slo_broken=_is_broken(slo),
        slo_ratio=slo.get("ratio"),
        requests_waiting=len(seen.waiting),
        paused=seen.beside.paused is not None,
        needs_you=list(_reasons(seen)),
    )


def _reasons(seen: Seen) -> Iterator[Reason]:
    status: Mapping[str, Any] = seen.status or {}
    if seen.error is not None:
        yield Reason(reason="unreadable", text=f"its state cannot be read: {seen.error.message}", code=seen.error.code)
    fault = status.get("sourceError") or {}
    if seen.phase == "failed":
        yield Reason(reason="failed", text=f"it has failed: {fault.get('message', 'see its log')}", code=_code(fault))
    elif seen.lives.process_ended:
        yield Reason(reason="processEnded", text="its process has ended without a last status")
    elif seen.lives.silent_seconds:
        yield Reason(reason="silent", text=f"no process has written for {seen.lives.silent_seconds:,.0f} s")
    elif fault:
        yield Reason(reason="sourceFailing", text=str(fault.get("message", "")), code=_code(fault))
    yield from _of_tables(seen)
    if _is_broken(seen.beside.slo or {}):
        yield Reason(reason="objectiveBroken", text="the error budget of its objective is spent")
    if paused := seen.beside.paused:
        yield Reason(reason="paused", text=f"it is paused by {paused['by']}; the source has to keep its log")


def _of_tables(seen: Seen) -> Iterator[Reason]:
    if failing := seen.tables.get("FAILING", 0):
        names = [_name(table) for table in seen.listed if table.get("state") == "FAILING"][:_SHOWN]
        more = ", …" if failing > _SHOWN else ""
        yield Reason(reason="tablesFailing", text=f"{failing:,} fail: {', '.join(names)}{more}", count=failing)
    if asking := sum(bool((table.get("pause") or {}).get("asks")) for table in seen.listed):
        text = f"{asking:,} tables wait for a decision on a change of structure"
        yield Reason(reason="decisions", text=text, count=asking)
    if rows := sum(seen.beside.aside.values()):
        yield Reason(reason="rowsPutAside", text=f"{rows:,} rows are put aside", count=rows)
    if differing := sum(one.get("result") == "different" for one in _compared(seen)):
        yield Reason(reason="differs", text=f"{differing:,} tables differed when they were compared", count=differing)


def _worst_lag(status: Mapping[str, Any]) -> float | None:
    lags = [status.get("lagSeconds"), *(t.get("lagSeconds") for t in status.get("tables", ()) if not t.get("pause"))]
    return max((lag for lag in lags if lag is not None), default=None)


def _last_error(seen: Seen) -> LastError | None:
    if seen.error is not None:
        return LastError(code=seen.error.code, message=seen.error.message, hint=seen.error.hint)
    if fault := (seen.status or {}).get("sourceError"):
        return _error(fault)
    failing = next((table for table in seen.listed if table.get("error")), None)
    return None if failing is None else _error(failing["error"], row_id(failing))


def _name(table: Mapping[str, Any]) -> str:
    return str(TableId.from_json(dict(table)))


def _error(fault: Mapping[str, Any], table: str = "") -> LastError:
    return LastError(
        code=_code(fault), message=str(fault.get("message") or ""), hint=str(fault.get("hint") or ""), table=table
    )


def _code(fault: Mapping[str, Any]) -> str:
    return str(fault.get("code") or "")


def _compared(seen: Seen) -> list[Mapping[str, Any]]:
    return list((seen.beside.verification or {}).get("tables", ()))


def _is_broken(slo: Mapping[str, Any]) -> bool:
    return slo.get("isMet") is False
