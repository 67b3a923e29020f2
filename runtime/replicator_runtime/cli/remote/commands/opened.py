"""What every remote form begins with: the report, and the pipeline of the service."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from replicator_runtime.cli.report import Report
from replicator_runtime.observability.next_steps import Subject, only

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from replicator_runtime.cli.remote.client import Pipeline


@contextmanager
def opened(
    command: str,
    server: str,
    name: str,
    namespace: str = "default",
    *,
    as_json: bool,
    debug: bool,
    tables: Sequence[str] | None = None,
) -> Iterator[tuple[Report, Pipeline]]:
    """The report of a command, and the pipeline that it is about.

    Args:
        command: Its name, as in the envelope's schema.
        server: The service's address.
        name: The pipeline's name or file.
        namespace: Of the name.
        as_json: As `Report`.
        debug: As `Report`.
        tables: Those that were given.
    """
    subject = Subject(name, namespace, table=only(tables), server=server)
    with Report(command, as_json=as_json, debug=debug, subject=subject) as report:
        from replicator_runtime.cli.remote.client import Service
        from replicator_runtime.cli.remote.place import place_of

        yield report, Service(server).at(place_of(name, namespace))
