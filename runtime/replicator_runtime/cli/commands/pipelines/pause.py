"""`replicator pause` and `replicator resume`: a whole replicator waits, and goes on."""

from __future__ import annotations

from replicator_runtime.cli.options import AsJson, Base, Debug, Namespace, NoWait, Replicator, Timeout
from replicator_runtime.cli.report import Report
from replicator_runtime.observability.next_steps import Subject


def pause(
    name: Replicator,
    timeout: Timeout = 60.0,
    no_wait: NoWait = False,
    namespace: Namespace = "default",
    base: Base = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Let a replicator read nothing until `replicator resume`, also over restarts; what it has gathered is applied and saved.

    A run that goes on keeps its lease and waits; one that starts waits, too, and with --until-current ends with RPL-1247. The source has to
    keep its log meanwhile. Example: replicator pause pipeline.json
    """
    _ask("pause", name, namespace, base, None if no_wait else timeout, as_json=as_json, debug=debug)


def resume(
    name: Replicator,
    timeout: Timeout = 60.0,
    no_wait: NoWait = False,
    namespace: Namespace = "default",
    base: Base = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Let a paused replicator go on from where it was; a run that waits does so at once.

    Example: replicator resume pipeline.json
    """
    _ask("resume", name, namespace, base, None if no_wait else timeout, as_json=as_json, debug=debug)


def _ask(
    command: str, name: str, namespace: str, base: str | None, timeout: float | None, *, as_json: bool, debug: bool
) -> None:
    with Report(command, as_json=as_json, debug=debug, subject=Subject(name, namespace, base)) as report:
        from replicator_runtime.cli.control import ask

        ask(report, name, namespace, base, command, {}, timeout=timeout)
