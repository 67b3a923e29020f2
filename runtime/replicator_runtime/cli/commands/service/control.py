"""`replicator start`, `stop` and `restart`: replicators that a service runs."""

from __future__ import annotations

from replicator_runtime.cli.options import AsJson, Debug, Namespace, Replicator
from replicator_runtime.cli.report import Report
from replicator_runtime.observability.next_steps import Subject


def start(name: Replicator, namespace: Namespace = "default", as_json: AsJson = False, debug: Debug = False) -> None:
    """Have a service run a replicator, until `replicator stop`: it starts it again when it fails, and after its own restarts.

    Returns at once. Example: replicator start shop --server http://127.0.0.1:11015
    """
    _needs_service("start", name, namespace, as_json=as_json, debug=debug)


def stop(name: Replicator, namespace: Namespace = "default", as_json: AsJson = False, debug: Debug = False) -> None:
    """Have a service end a replicator in order: what is gathered is applied, and its offset is saved.

    Returns at once. Example: replicator stop shop --server http://127.0.0.1:11015
    """
    _needs_service("stop", name, namespace, as_json=as_json, debug=debug)


def restart(name: Replicator, namespace: Namespace = "default", as_json: AsJson = False, debug: Debug = False) -> None:
    """Have a service end a replicator in order and start it again, with its pipeline as it is now.

    Returns at once. Example: replicator restart shop --server http://127.0.0.1:11015
    """
    _needs_service("restart", name, namespace, as_json=as_json, debug=debug)


def _needs_service(command: str, name: str, namespace: str, *, as_json: bool, debug: bool) -> None:
    from replicator_sdk.errors import NeedsUserError

    with Report(command, as_json=as_json, debug=debug, subject=Subject(name, namespace)):
        raise NeedsUserError(
            f"only a service can {command} a replicator, and none was named",
            code="RPL-1589",
            hint="give --server URL, or set REPLICATOR_SERVER; without a service, `replicator run PIPELINE` replicates until its end",
        )
