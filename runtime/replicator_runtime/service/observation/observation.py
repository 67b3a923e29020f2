"""What the service knows of the state of all pipelines: one reader for each, however many look."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from replicator_runtime.service.observation.fleet import Summary, summary_of
from replicator_runtime.service.observation.looks import Looks
from replicator_runtime.service.observation.state_reader import Seen, StateReader, unreadable
from replicator_runtime.service.observation.stored import directory_of, pipeline_row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from datetime import datetime

    from replicator_runtime.service.settings import ServiceSettings
    from replicator_runtime.service.store.database import Database
    from replicator_runtime.service.store.tables import Pipeline

Key = tuple[str, str]


@dataclass(slots=True)
class _Observed:
    """One pipeline's reader, and what was made of what it saw last."""

    version: tuple[int, datetime]
    reader: StateReader
    seen: Seen | None = None
    summary: Summary | None = None


class Observation:
    """Safe from any thread. Reads only when someone looks, who waits for about a second at most.

    Args:
        settings: The service's.
        database: The service's.
    """

    def __init__(self, settings: ServiceSettings, database: Database) -> None:
        self._settings = settings
        self._database = database
        self._looks = Looks()
        self._lock = threading.Lock()
        self._pipelines: dict[Key, _Observed] = {}
        self._texts: dict[Key, tuple[Summary, object, str]] = {}

    def reader(self, row: Pipeline) -> StateReader:
        """The reader of a pipeline's state.

        Raises:
            ConfigError: RPL-7102 when its base path cannot be used.
        """
        return self._of(row).reader

    def reader_of(self, namespace: str, name: str) -> StateReader:
        """The same, by name.

        Raises:
            ProblemError: 404 RPL-1520 when there is no such pipeline.
            ConfigError: As `reader`.
        """
        return self.reader(pipeline_row(self._database, namespace, name))

    def look(self, row: Pipeline) -> Seen:
        """What is known of a pipeline's state now; raises nothing."""
        try:
            return self._looks.seen([self._of(row).reader])[0]
        except Exception as error:  # noqa: BLE001 - of one pipeline; the others are shown
            return Seen(error=unreadable(error))

    def look_at(self, rows: Iterable[Pipeline]) -> list[Summary]:
        """What the list shows of many, looked at at once: about a second in all, however many do not answer. Raises nothing."""
        found: list[_Observed | Summary] = []
        for row in rows:
            try:
                found.append(self._of(row))
            except Exception as error:  # noqa: BLE001 - of one pipeline; the others are shown
                found.append(_unreadable(error))
        seen = iter(self._looks.seen(one.reader for one in found if isinstance(one, _Observed)))
        return [self._summarized(one, next(seen)) if isinstance(one, _Observed) else one for one in found]

    def rows(self, namespace: str, name: str) -> Mapping[str, Mapping[str, Any]]:
        """The tables of a pipeline as they are listed, by id.

        Raises:
            ProblemError: 404 RPL-1520 when there is no such pipeline.
            ReplicatorError: What prevents that the state is read.
        """
        reader = self.reader_of(namespace, name)
        (seen,) = self._looks.seen([reader])
        if seen.error is not None:
            raise seen.error
        return reader.rows(seen)

    def summary(self, row: Pipeline) -> Summary:
        """What the list shows of a pipeline; raises nothing."""
        try:
            one = self._of(row)
        except Exception as error:  # noqa: BLE001 - of one pipeline; the others are shown
            return _unreadable(error)
        (seen,) = self._looks.seen([one.reader])
        return self._summarized(one, seen)

    def _summarized(self, one: _Observed, seen: Seen) -> Summary:
        with self._lock:
            if one.seen is not seen or one.summary is None:
                one.seen, one.summary = seen, summary_of(seen)
            return one.summary

    def text(self, row: Pipeline, summary: Summary, version: object, make: Callable[[], str]) -> str:
        """The JSON of a pipeline's list item, made again when `version` or what is known of its state is another than before."""
        key = (row.namespace, row.name)
        with self._lock:
            known = self._texts.get(key)
        if known is not None and known[0] is summary and known[1] == version:
            return known[2]
        made = make()
        with self._lock:
            self._texts[key] = (summary, version, made)
        return made

    def forget(self, namespace: str, name: str) -> None:
        """Read a pipeline's state again at the next look, as after a change of our own."""
        with self._lock:
            found = self._pipelines.get((namespace, name))
        if found is not None:
            found.reader.forget()

    def keep(self, keys: Iterable[Key], namespace: str | None = None) -> None:
        """Forget all others, of a namespace or of all."""
        kept = set(keys)
        with self._lock:
            for key in [key for key in self._pipelines if key not in kept and namespace in {None, key[0]}]:
                del self._pipelines[key]
                self._texts.pop(key, None)

    def _of(self, row: Pipeline) -> _Observed:
        key = (row.namespace, row.name)
        with self._lock:
            found = self._pipelines.get(key)
        version = (row.version, row.created)
        if found is not None and found.version == version:
            return found
        # A list's rows come without their config.
        whole = row if "config" in row.__dict__ else pipeline_row(self._database, *key)
        made = _Observed(version, StateReader(directory_of(whole, self._settings.base_path)))
        with self._lock:
            self._pipelines[key] = made
        return made


def _unreadable(error: Exception) -> Summary:
    return summary_of(Seen(error=unreadable(error)))
