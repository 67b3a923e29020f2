"""`replicator plan` and `replicator approve`: what an edited pipeline does, and the approval of what cannot be taken back."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from replicator_runtime.cli.options import AsJson, Base, Debug, Namespace, PipelineFile, Replicator
from replicator_runtime.cli.report import Report
from replicator_runtime.observability.next_steps import Subject, completed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from replicator_runtime.cli.state_lookup import StateLocation
    from replicator_runtime.engine.planning.plan import Plan, Step

_ID = re.compile(r"[0-9a-f]{12}")
PlanId = Annotated[str, typer.Argument(metavar="PLAN", help="The plan's id.", show_default=False)]


def plan(pipeline: PipelineFile, as_json: AsJson = False, debug: Debug = False) -> None:
    """Compare a pipeline JSON with what its last run left: what the next run does, what it costs, what needs an approval.

    Changes nothing, also while a run goes on. Ends with exit code 6 when something needs an approval that it does not have yet,
    and with 3 when an edit stops a table whatever is approved. Example: replicator plan pipeline.json
    """
    with Report("plan", as_json=as_json, debug=debug, subject=Subject(str(pipeline))) as report:
        from replicator_runtime.config import load_pipeline
        from replicator_runtime.engine.planning.approvals import Approvals
        from replicator_runtime.engine.planning.planner import stored_plan
        from replicator_state import ReplicatorDirectory

        loaded = load_pipeline(pipeline)
        config = loaded.config
        directory = ReplicatorDirectory(config.offset_base_path, config.namespace, config.name, retry_seconds=5)
        found = stored_plan(loaded, directory)
        asks = config.edits == "ask"
        missing = Approvals(directory.states().scoped("runtime"), directory.requests()).missing(found) if asks else ()
        report.data = {
            "plan": found.plan_id,
            "isFirst": found.is_first,
            "needsApproval": bool(missing),
            "edits": config.edits,
            "steps": [_json(step, asks=step in missing) for step in found.steps],
        }
        print_plan(report, report.data)
        _raise_refused(found)
        if missing:
            raise _needs_approval(found, missing)
        report.note("Next: `replicator run PIPELINE`")


def approve(
    name: Replicator,
    plan: PlanId,
    namespace: Namespace = "default",
    base: Base = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Approve a plan, so that the next run does what it says. An approval is good for this plan, until any plan is applied.

    With the pipeline's file the plan is made again, and one that is out of date is refused; with a name alone the run refuses it.
    It is kept for 30 days and listed by `replicator requests`. Example: replicator approve shop 3f0c9a51be77
    """
    with Report("approve", as_json=as_json, debug=debug, subject=Subject(name, namespace, base)) as report:
        from replicator_runtime.cli.state_lookup import find_state
        from replicator_runtime.engine.planning.approvals import APPROVE
        from replicator_sdk.errors import NeedsUserError

        if not _ID.fullmatch(plan):
            raise NeedsUserError(
                f"{plan[:80]!r} is no id of a plan",
                code="RPL-1262",
                hint="give the 12 letters and digits that `replicator plan` shows",
            )
        location = find_state(name, namespace, base)
        location.directory.check_user()
        if location.config is not None:
            _check_plan(name, plan, location)
        request = location.directory.requests().record(APPROVE, {"plan": plan}, f"plan {plan} is approved")
        report.data = {"plan": plan, "request": request.request_id, "by": request.by, "at": request.at.isoformat()}
        report.line(f"plan {plan} is approved; the next run applies it")


def _check_plan(name: str, plan_id: str, location: StateLocation) -> None:
    """Refuse what is not the plan of the pipeline's file now."""
    from replicator_runtime.config import load_pipeline
    from replicator_runtime.engine.planning.planner import stored_plan
    from replicator_sdk.errors import NeedsUserError

    found = stored_plan(load_pipeline(Path(name)), location.directory)
    if found.plan_id == plan_id and found.asking:
        return
    now = f"it is {found.plan_id} now" if found.asking else "nothing needs an approval now"
    raise NeedsUserError(
        f"plan {plan_id} is out of date: {now}; nothing was approved",
        code="RPL-1263",
        hint="look at `replicator plan PIPELINE` and approve the plan that it shows",
    )


def print_plan(report: Report, found: Mapping[str, Any]) -> None:
    """Print a plan, as the JSON of the command has it."""
    steps = found["steps"]
    if not steps:
        report.note("nothing was edited since the last run")
        return
    for step in steps:
        code = f" [{step['code']}]" if step["code"] else ""
        report.line(f"{_verdict(step):<8} {step['subject']}: {step['change']}{code}")
        about = (
            ("effect", step["effect"]),
            ("cost", step["cost"]["text"]),
            ("why", step["reason"]),
            ("do", step["suggestion"]),
        )
        for label, text in about:
            if text:
                report.line(f"         {label + ':':<8}{text}", step["subject"])
    report.line()
    asked = sum(step["awaitsApproval"] for step in steps)
    report.line(f"plan {found['plan']}: {len(steps)} step{'s' * (len(steps) > 1)}, {asked} to approve")


def _json(step: Step, *, asks: bool) -> dict[str, Any]:
    suggestion = completed(step.suggestion, step.subject) or None
    return {**step.to_json(), "awaitsApproval": asks, "suggestion": suggestion}


def _verdict(step: Mapping[str, Any]) -> str:
    if step["refused"]:
        return "REFUSED"
    if step["awaitsApproval"]:
        return "APPROVE"
    return "APPROVED" if step["needsApproval"] else "SAFE"


def _raise_refused(found: Plan) -> None:
    """End with the error of the first step that no approval helps.

    Raises:
        NeedsUserError: With the code by which its table stops.
    """
    from replicator_sdk.errors import NeedsUserError

    for step in found.steps:
        if step.refused:
            raise NeedsUserError(
                f"an edit cannot be followed: {step.effect}",
                code=step.code,
                hint=step.suggestion,
                table=step.subject,
            )


def _needs_approval(found: Plan, missing: tuple[Step, ...]) -> Exception:
    from replicator_sdk.errors import SchemaDriftError

    count = len(missing)
    return SchemaDriftError(
        f"{count} step{'s' * (count > 1)} of plan {found.plan_id} need{'s' * (count == 1)} an approval; nothing was changed",
        code="RPL-1260",
        hint=f"`replicator approve NAME {found.plan_id}`, then `replicator run PIPELINE`; or take the edit back",
    )
