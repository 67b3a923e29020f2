"""The rows of pipelines and their processes, as the supervisor reads and writes them: each call is one transaction."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import delete, func, insert, select, update
from sqlalchemy.orm import aliased
from ulid import ULID

from replicator_runtime.service.store.tables import Instance, Job, Pipeline
from replicator_runtime.service.supervision.states import CONFIG_IS_WRONG, DELETE, RUN, Newest, Wanted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import ColumnElement, Select
    from sqlalchemy.orm import Session

    from replicator_runtime.service.store.database import Database
    from replicator_runtime.service.supervision.lease import SupervisorLease

KEPT_INSTANCES = 20
"""So many processes of a pipeline are remembered, with the end of their output at least."""
WHOLE_OUTPUTS = 3
"""Of so many of them the output is kept as it is."""


@dataclass(frozen=True, slots=True)
class Supervised:
    """A pipeline and its newest process."""

    namespace: str
    name: str
    wanted: Wanted
    newest: Newest | None


@dataclass(frozen=True, slots=True)
class Begun:
    """A process whose row is stored, and that is to be started.

    Attributes:
        newest: Its row.
        words: Command and options.
        config: The pipeline JSON.
    """

    newest: Newest
    words: list[str]
    config: str


class Records:
    """Rows of one database.

    Args:
        database: The service's.
        lease: Without which nothing is written that lets a process begin.
    """

    def __init__(self, database: Database, lease: SupervisorLease) -> None:
        self._database = database
        self._lease = lease

    def all(self) -> list[Supervised]:
        """Every pipeline, but for those that are stopped and whose process has ended."""
        with self._database.session() as session:
            found = session.execute(_with_newest().where((Pipeline.wanted != Wanted.STOPPED) | _lives()))
            return [_supervised(namespace, name, wanted, row) for namespace, name, wanted, row in found]

    def begin(self, supervised: Supervised, instance_id: str, launcher: str, place: str) -> Begun | None:
        """Store the row of a process that is started next; None when it is not to be, by what is stored meanwhile."""
        with self._database.change() as session:
            if not self._lease.hold(session):
                return None
            row = session.get(Pipeline, (supervised.namespace, supervised.name), with_for_update=True)
            newest = newest_of(session, supervised.namespace, supervised.name)
            if row is None or newest != supervised.newest or row.wanted != supervised.wanted:
                return None
            deleting = supervised.wanted is Wanted.DELETING
            begun = Newest(
                instance_id=instance_id,
                launcher=launcher,
                place=place,
                command=DELETE if deleting else RUN,
                config_version=row.version,
                started=datetime.now(UTC),
                ended=None,
                exit_code=None,
                restarts=0 if newest is None or newest.dismissed else newest.failed_starts,
                dismissed=False,
                error="",
            )
            session.execute(insert(Instance).values(_columns(supervised, begun)))
            words = [DELETE, "--yes", *json.loads(row.deletion or "[]")] if deleting else [RUN, "--log-format", "json"]
            return Begun(begun, [*words, "--json"], row.config)

    def dismiss(self, instance_id: str) -> None:
        """Note that a process is asked to end, before it is."""
        with self._database.session() as session:
            session.execute(
                update(Instance)
                .where(Instance.instance_id == instance_id, Instance.dismissed.is_(None))
                .values(dismissed=datetime.now(UTC))
            )

    def note(self, instance_id: str, error: Mapping[str, str]) -> None:
        """Note an error of a process that has not ended."""
        with self._database.session() as session:
            session.execute(
                update(Instance)
                .where(Instance.instance_id == instance_id, Instance.ended.is_(None))
                .values(error=json.dumps(dict(error)) if error else "")
            )

    def end(self, instance_id: str, exit_code: int | None, at: datetime, error: Mapping[str, str]) -> None:
        """Store the end of a process; the first one stored stays."""
        with self._database.session() as session:
            session.execute(
                update(Instance)
                .where(Instance.instance_id == instance_id, Instance.ended.is_(None))
                .values(ended=at, exit_code=exit_code, error=json.dumps(dict(error)) if error else "")
            )

    def older(self, namespace: str, name: str) -> list[tuple[str, str, str]]:
        """Id, launcher and place of processes of a pipeline that have ended, but for the newest `WHOLE_OUTPUTS`; the newest first."""
        with self._database.session() as session:
            return [
                (instance_id, launcher, place)
                for instance_id, launcher, place in session.execute(
                    select(Instance.instance_id, Instance.launcher, Instance.handle)
                    .where(Instance.namespace == namespace, Instance.name == name, Instance.ended.is_not(None))
                    .order_by(Instance.instance_id.desc())
                    .offset(WHOLE_OUTPUTS)
                )
            ]

    def ran(self, namespace: str, name: str) -> bool:
        """Whether a pipeline has run whose deletion has begun for the first time: then something of it is stored."""
        with self._database.session() as session:
            found = session.execute(
                select(Instance.command, Instance.exit_code).where(
                    Instance.namespace == namespace, Instance.name == name
                )
            ).all()
        ran = any(command == RUN and exit_code != CONFIG_IS_WRONG for command, exit_code in found)
        return ran and sum(command == DELETE for command, _ in found) == 1

    def places(self, namespace: str, name: str) -> list[tuple[str, str]]:
        """Launcher and place of each remembered process of a pipeline."""
        with self._database.session() as session:
            found = session.execute(
                select(Instance.launcher, Instance.handle).where(Instance.namespace == namespace, Instance.name == name)
            )
            return [(launcher, place) for launcher, place in found]

    def forget(self, instance_ids: Sequence[str]) -> None:
        """Delete rows of processes."""
        with self._database.session() as session:
            session.execute(delete(Instance).where(Instance.instance_id.in_(instance_ids)))

    def remove(self, namespace: str, name: str) -> None:
        """Delete a pipeline and all rows of it."""
        with self._database.session() as session:
            for table in (Instance, Job, Pipeline):
                session.execute(delete(table).where(table.namespace == namespace, table.name == name))

    def known(self) -> tuple[set[str], set[tuple[str, str]]]:
        """All ids of processes, and all names of pipelines."""
        with self._database.session() as session:
            instances = set(session.scalars(select(Instance.instance_id)))
            return instances, {(one, two) for one, two in session.execute(select(Pipeline.namespace, Pipeline.name))}


def next_id(newest: Newest | None) -> str:
    """An id after that of the newest process, also where the clock was set back."""
    made = ULID()
    if newest is not None and (before := ULID.from_str(newest.instance_id)) >= made:
        made = ULID.from_int(int(before) + 1)
    return str(made)


def newest_of(session: Session, namespace: str, name: str) -> Newest | None:
    """The newest process of a pipeline."""
    row = session.scalar(
        select(Instance)
        .where(Instance.namespace == namespace, Instance.name == name)
        .order_by(Instance.instance_id.desc())
        .limit(1)
    )
    return None if row is None else newest_from(row)


def newest_from(row: Instance) -> Newest:
    """A row of `instances`."""
    return Newest(
        instance_id=row.instance_id,
        launcher=row.launcher,
        place=row.handle,
        command=row.command,
        config_version=row.config_version,
        started=row.started,
        ended=row.ended,
        exit_code=row.exit_code,
        restarts=row.restarts,
        dismissed=row.dismissed is not None,
        error=row.error,
    )


def _columns(supervised: Supervised, begun: Newest) -> dict[str, object]:
    return {
        "instance_id": begun.instance_id,
        "namespace": supervised.namespace,
        "name": supervised.name,
        "launcher": begun.launcher,
        "handle": begun.place,
        "command": begun.command,
        "config_version": begun.config_version,
        "started": begun.started,
        "restarts": begun.restarts,
        "error": "",
    }


def with_newest(*columns: Any) -> Select[Any]:
    """A query of pipelines' columns, each with the row of its newest process."""
    newest = aliased(Instance)
    last = (
        select(func.max(newest.instance_id))
        .where(newest.namespace == Pipeline.namespace, newest.name == Pipeline.name)
        .correlate(Pipeline)
        .scalar_subquery()
    )
    return select(*columns, Instance).outerjoin(Instance, Instance.instance_id == last)


def _with_newest() -> Select[Any]:
    return with_newest(Pipeline.namespace, Pipeline.name, Pipeline.wanted)


def _lives() -> ColumnElement[bool]:
    return Instance.instance_id.is_not(None) & Instance.ended.is_(None)


def _supervised(namespace: str, name: str, wanted: str, row: Instance | None) -> Supervised:
    return Supervised(namespace, name, Wanted(wanted), None if row is None else newest_from(row))
