"""`replicator notifications`: tries the services that a pipeline notifies of conditions."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import typer

from replicator_runtime.cli.options import AsJson, Debug, PipelineFile
from replicator_runtime.cli.report import Report
from replicator_runtime.observability.next_steps import Subject

if TYPE_CHECKING:
    from replicator_runtime.config.sections.destinations import Destination

app = typer.Typer(
    help="Try the services that a pipeline notifies of conditions.", no_args_is_help=True, rich_markup_mode=None
)


@app.callback()
def notifications() -> None:
    """Try the services that a pipeline notifies of conditions."""


@app.command("test")
def send_test(pipeline: PipelineFile, as_json: AsJson = False, debug: Debug = False) -> None:
    """Send one message to each entry of `notifications`, and say which services took it.

    Exit code 4 when one did not. Example: replicator notifications test pipeline.json
    """
    with Report("notifications-test", as_json=as_json, debug=debug, subject=Subject(str(pipeline))) as report:
        from replicator_runtime.config import load_pipeline
        from replicator_runtime.config.sections.notifications import NOTICE_KINDS
        from replicator_sdk.errors import RetryableError

        loaded = load_pipeline(pipeline)
        found, name = loaded.destinations, loaded.config.name
        with ThreadPoolExecutor(max(1, len(found))) as pool:
            why = list(pool.map(lambda one: _try(name, one), found))
        report.data = [
            {"destination": one.name, "on": list(one.config.on), "sent": not text, "why": text or None}
            for one, text in zip(found, why, strict=True)
        ]
        every = list(NOTICE_KINDS)
        rows = [
            (
                e["destination"],
                "all" if e["on"] == every else ", ".join(e["on"]),
                "sent" if e["sent"] else f"not sent: {e['why']}",
            )
            for e in report.data
        ]
        report.table(("destination", "on", "outcome"), rows)
        if not found:
            report.note("the pipeline has no notifications")
        if failed := sum(map(bool, why)):
            raise RetryableError(
                f"{failed} of {len(found)} services did not take the message",
                code="RPL-1007",
                hint="correct their URLs in `notifications`, or wait until they can be reached, and give the command again",
            )


def _try(name: str, destination: Destination) -> str:
    from replicator_runtime.notices.delivery import send
    from replicator_runtime.notices.messages import Message

    return send(
        destination, Message(f"replicator {name}: a test", "This service is notified of what its entry names.", "info")
    )
