"""Documents that people write: drafts and connections, read, written and deleted under a condition on their version."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from sqlalchemy import delete, select, update
from sqlalchemy.exc import IntegrityError

from replicator_runtime.service.problems import NOT_FOUND, ProblemError
from replicator_runtime.service.store.conditions import Condition, changed_elsewhere
from replicator_runtime.service.store.tables import Connection, Draft

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import ColumnElement

    from replicator_runtime.service.store.database import Database

GENERATION = 1
"""Of the namespace: none is deleted and created again here, as CDAP's may be."""
_TRIES = 20
DocumentT = TypeVar("DocumentT", Draft, Connection)


def etag(document: Draft | Connection) -> str:
    """The document's ETag: of this version of it, also after it was deleted and created again."""
    return f'"{document.version}-{int(document.created.timestamp() * 1_000_000):x}"'


class StoredDocuments(Generic[DocumentT]):
    """The documents of one kind. Safe from any thread.

    Args:
        database: The service's.
    """

    kind: type[DocumentT]
    more_of_key: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, database: Database) -> None:
        self._database = database

    def after(self, namespace: str, name: str | None, limit: int) -> Sequence[DocumentT]:
        """At most `limit` documents of a namespace in the order of their names: those after one name, or the first."""
        wanted = select(self.kind).where(*self._key(namespace))
        if name is not None:
            wanted = wanted.where(self.kind.name > name)
        with self._database.session() as session:
            return session.scalars(wanted.order_by(self.kind.name).limit(limit)).all()

    def find(self, namespace: str, name: str) -> DocumentT:
        """A document.

        Raises:
            ProblemError: 404 RPL-1501 when there is none.
        """
        found = self._look_up(namespace, name)
        if found is None:
            kind = self.kind.__name__.lower()
            raise ProblemError(
                404, NOT_FOUND, f"there is no such {kind}", hint=f"the list of {kind}s shows their names"
            )
        return found

    def save(
        self, namespace: str, name: str, values: Mapping[str, str], condition: Condition
    ) -> tuple[DocumentT, bool]:
        """Create or overwrite a document; returns it, and whether it is new.

        Raises:
            ProblemError: 412 RPL-1505 when the condition does not hold.
        """
        for _ in range(_TRIES):
            before = self._look_up(namespace, name)
            condition.check(None if before is None else etag(before))
            now = datetime.now(UTC)
            document = self.kind(namespace=namespace, name=name, **self.more_of_key, **values, updated=now)
            document.created = now if before is None else before.created
            document.version = 1 if before is None else before.version + 1
            changes = {**values, "updated": now, "version": document.version}
            if self._create(document) if before is None else self._overwrite(before, changes):
                return self.find(namespace, name) if before is None else document, before is None
        raise changed_elsewhere("others are changing it all the time")

    def delete(self, namespace: str, name: str, condition: Condition) -> None:
        """Delete a document.

        Raises:
            ProblemError: 404 RPL-1501 when there is none, 412 RPL-1505 when the condition does not hold.
        """
        for _ in range(_TRIES):
            document = self.find(namespace, name)
            condition.check(etag(document))
            with self._database.session() as session:
                removed = session.execute(delete(self.kind).where(*self._version(document)))
            if removed.rowcount:  # type: ignore[attr-defined]  # of a DELETE
                return
        raise changed_elsewhere("others are changing it all the time")

    def _look_up(self, namespace: str, name: str) -> DocumentT | None:
        with self._database.session() as session:
            return session.scalars(select(self.kind).where(*self._key(namespace), self.kind.name == name)).first()

    def _create(self, document: DocumentT) -> bool:
        try:
            with self._database.session() as session:
                session.add(document)
        except IntegrityError:
            return False  # another request has created it meanwhile
        return True

    def _overwrite(self, before: DocumentT, changes: Mapping[str, Any]) -> bool:
        with self._database.session() as session:
            changed = session.execute(update(self.kind).where(*self._version(before)).values(changes))
        return bool(changed.rowcount)  # type: ignore[attr-defined]  # of an UPDATE

    def _key(self, namespace: str) -> list[ColumnElement[bool]]:
        more: list[ColumnElement[bool]] = [
            getattr(self.kind, name) == value for name, value in self.more_of_key.items()
        ]
        return [self.kind.namespace == namespace, *more]

    def _version(self, document: DocumentT) -> list[ColumnElement[bool]]:
        """Holds for this version of the document only."""
        return [
            *self._key(document.namespace),
            self.kind.name == document.name,
            self.kind.version == document.version,
            self.kind.created == document.created,
        ]


class StoredDrafts(StoredDocuments[Draft]):
    """Drafts of pipelines."""

    kind = Draft
    more_of_key: ClassVar[Mapping[str, Any]] = {"generation": GENERATION}


class StoredConnections(StoredDocuments[Connection]):
    """Settings of sources and targets."""

    kind = Connection
