"""The JSON of drafts as it is answered: made once for each version, since a list of hundreds is asked for again and again."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import func, select

from replicator_runtime.service.store.documents import GENERATION
from replicator_runtime.service.store.tables import Draft

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Row

    from replicator_runtime.service.store.database import Database

_MOST_BYTES: Final = 16 * 1024 * 1024
_NAMED = (Draft.name, Draft.label, Draft.created, Draft.updated, Draft.config)
Signature = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class DraftText:
    """A draft's name and its JSON."""

    name: str
    text: bytes


def draft_text(draft: Draft | Row[*tuple[Any, ...]]) -> bytes:
    """A draft's JSON; the config is as it is stored, since it may be large."""
    first = {
        "name": draft.name,
        "label": draft.label,
        "created": draft.created.isoformat(timespec="milliseconds"),
        "updated": draft.updated.isoformat(timespec="milliseconds"),
    }
    return f'{json.dumps(first)[:-1]}, "config": {draft.config}}}'.encode()


class DraftTexts:
    """The JSON of the drafts of the namespaces that were listed last, within a bound. Safe from any thread.

    Args:
        database: The service's.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, tuple[Signature, Sequence[DraftText]]] = OrderedDict()

    def after(self, namespace: str, name: str | None, limit: int) -> Sequence[DraftText]:
        """At most `limit` drafts of a namespace in the order of their names: those after one name, or the first."""
        if name is not None:
            return self._read(namespace, name, limit)
        signature = (limit, *self._signature(namespace))
        with self._lock:
            before = self._kept.get(namespace)
        if before is not None and before[0] == signature:
            return before[1]
        found = self._read(namespace, None, limit)
        with self._lock:
            self._kept[namespace] = (signature, found)
            self._kept.move_to_end(namespace)
            while len(self._kept) > 1 and self._bytes() > _MOST_BYTES:
                self._kept.popitem(last=False)
            if self._bytes() > _MOST_BYTES:
                self._kept.clear()
        return found

    def _bytes(self) -> int:
        return sum(len(draft.text) for _, drafts in self._kept.values() for draft in drafts)

    def _signature(self, namespace: str) -> tuple[object, ...]:
        """Differs once any draft of the namespace was created, changed or deleted."""
        wanted = select(func.count(), func.max(Draft.updated), func.sum(Draft.version))
        with self._database.session() as session:
            found = session.execute(wanted.where(Draft.namespace == namespace, Draft.generation == GENERATION)).one()
        return tuple(found)

    def _read(self, namespace: str, name: str | None, limit: int) -> Sequence[DraftText]:
        wanted = select(*_NAMED).where(Draft.namespace == namespace, Draft.generation == GENERATION)
        if name is not None:
            wanted = wanted.where(Draft.name > name)
        with self._database.session() as session:
            rows = session.execute(wanted.order_by(Draft.name).limit(limit)).all()
        return [DraftText(row.name, draft_text(row)) for row in rows]
