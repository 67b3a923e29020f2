"""Lets a run begin with an edited pipeline only where an operator has approved what cannot be taken back."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from replicator_runtime.config.default_paths import default_base_path
from replicator_runtime.stored_forms import APPROVALS, head, parsed
from replicator_sdk.errors import SchemaDriftError
from replicator_sdk.failpoint import failpoint, register
from replicator_state import OutcomeState

if TYPE_CHECKING:
    from replicator_runtime.config import PipelineConfig
    from replicator_runtime.engine.planning.plan import Plan, Step
    from replicator_state import Request, RequestFolder, StateStore

register("engine.plan.before_save", "engine.plan.after_save")
log = structlog.get_logger()

APPROVE = "plan.approve"
"""The command in the history of requests."""
_NAMED = 3


@dataclass(frozen=True, slots=True)
class _Kept:
    """What is stored.

    Attributes:
        applying: Keys of the approved steps of the last plan that was accepted. A run that is killed leaves some of them to
            the next, which does not ask again.
        spent: Requests whose approval is used up, of those that are kept.
    """

    applying: frozenset[str] = frozenset()
    spent: frozenset[str] = frozenset()


class Approvals:
    """The approvals of a replicator: each is a request with its outcome, for one plan, until a plan is applied.

    Args:
        store: Of the engine; written by `accept` alone, under the lease.
        requests: Of the replicator.
    """

    def __init__(self, store: StateStore, requests: RequestFolder) -> None:
        self._store = store
        self._requests = requests

    def missing(self, plan: Plan) -> tuple[Step, ...]:
        """The steps that need an approval and have none; reads only.

        Raises:
            ReplicatorError: As the state's store fails.
        """
        kept = self._load()
        return self._missing(plan, kept, self._usable(kept) if plan.asking else [])

    def accept(self, plan: Plan, config: PipelineConfig) -> None:
        """Let a run go on with `plan`; durable when this returns, before anything of the plan is done.

        Raises:
            SchemaDriftError: RPL-1260 or RPL-1261 when an approval is missing; nothing was changed.
            ReplicatorError: As the state's store fails.
        """
        kept = self._load()
        if not plan.steps and not kept.applying:
            return
        applied = any(not step.refused for step in plan.steps)
        given = self._given() if applied else []
        usable = [one for one in given if one.request_id not in kept.spent]
        missing = self._missing(plan, kept, usable)
        if missing and config.edits == "ask":
            raise self._refusal(plan, missing, usable, config)
        spent = frozenset(one.request_id for one in given) if applied else kept.spent
        now = _Kept(frozenset(step.key for step in plan.asking), spent)
        if applied:
            log.info("plan.accepted", plan=plan.plan_id, steps=len(plan.steps), approved=len(plan.asking))
        if now != kept:
            failpoint("engine.plan.before_save")
            content = {**head(APPROVALS), "applying": sorted(now.applying), "spent": sorted(now.spent)}
            self._store.put(APPROVALS, json.dumps(content).encode())
            failpoint("engine.plan.after_save")

    def _missing(self, plan: Plan, kept: _Kept, usable: list[Request]) -> tuple[Step, ...]:
        missing = tuple(step for step in plan.asking if step.key not in kept.applying)
        return () if any(one.arguments.get("plan") == plan.plan_id for one in usable) else missing

    def _usable(self, kept: _Kept) -> list[Request]:
        """The approvals that are not used up, the newest first."""
        return [one for one in self._given() if one.request_id not in kept.spent]

    def _given(self) -> list[Request]:
        """All approvals that are kept, the newest first."""
        return [
            entry.request
            for entry in self._requests.history()
            if entry.request is not None
            and entry.request.command == APPROVE
            and entry.outcome is not None
            and entry.outcome.state is OutcomeState.DONE
        ]

    def _load(self) -> _Kept:
        content = self._store.get(APPROVALS)
        if not content:
            return _Kept()
        value = parsed(APPROVALS, content)
        return _Kept(frozenset(value["applying"]), frozenset(value["spent"]))

    def _refusal(
        self, plan: Plan, missing: tuple[Step, ...], usable: list[Request], config: PipelineConfig
    ) -> SchemaDriftError:
        hint = f"look at it with `replicator plan`, then `{self._command(plan, config)}`; or take the edit back"
        if usable:
            other = usable[0].arguments.get("plan")
            return SchemaDriftError(
                f"the approval of plan {other} is out of date: the pipeline's plan is {plan.plan_id} now ({_shown(missing)})",
                code="RPL-1261",
                hint=hint,
            )
        return SchemaDriftError(
            f"plan {plan.plan_id} of the edited pipeline needs an approval ({_shown(missing)}); nothing was changed",
            code="RPL-1260",
            hint=hint,
        )

    def _command(self, plan: Plan, config: PipelineConfig) -> str:
        """The command that approves `plan`."""
        base = self._requests.place.removesuffix(f"/{config.namespace}/{config.name}/requests")
        namespace = () if config.namespace == "default" else ("--namespace", config.namespace)
        elsewhere = () if base == default_base_path() else ("--base", base)
        return shlex.join(("replicator", "approve", config.name, plan.plan_id, *namespace, *elsewhere))


def _shown(steps: tuple[Step, ...]) -> str:
    names = ", ".join(f"{step.subject}: {step.change}" for step in steps[:_NAMED])
    return names + (f" and {len(steps) - _NAMED} more" if len(steps) > _NAMED else "")
