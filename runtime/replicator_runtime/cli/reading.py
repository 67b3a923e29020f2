"""Reads source and target beside a run, for commands that change nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from replicator_runtime.cli.report import say

if TYPE_CHECKING:
    from collections.abc import Callable

    from replicator_runtime.engine.verification.reading import Reading

FoundT = TypeVar("FoundT")


def read_beside_run(
    name: str, namespace: str, base: str | None, read: Callable[[Reading], FoundT]
) -> tuple[FoundT, int]:
    """Read in a thread, which signals stop.

    Args:
        name: The pipeline's file.
        namespace: As `find_state`.
        base: As `find_state`.
        read: Reads, until its `stop` is set.

    Returns:
        What was read until then, and the exit code for the signal (0: none came).

    Raises:
        NeedsUserError: RPL-1360 for a name alone, which does not say how source and target are reached.
        ReplicatorError: As `find_state`, `load_pipeline` and `read`.
    """
    from replicator_runtime.cli.state_lookup import find_state
    from replicator_runtime.cli.stop_signals import StopSignals
    from replicator_runtime.config import load_pipeline
    from replicator_runtime.engine.verification.reading import Reading
    from replicator_runtime.execution import InThread
    from replicator_runtime.observability.logs import configure_logging
    from replicator_sdk.errors import NeedsUserError

    location = find_state(name, namespace, base)
    if location.config is None:
        raise NeedsUserError(
            f'the name "{name}" does not say how source and target are reached',
            code="RPL-1360",
            hint="give the pipeline's file instead, as in `replicator verify pipeline.json`, or `replicator explain-row pipeline.json TABLE KEY`",
        )
    pipeline = load_pipeline(Path(name))
    work = InThread(lambda stop, _: read(Reading(pipeline, location.directory, stop)))
    with StopSignals(work.stop, say) as signals:
        configure_logging("error", "console")
        work.start()
        found = work.result()
    return found, signals.exit_code
