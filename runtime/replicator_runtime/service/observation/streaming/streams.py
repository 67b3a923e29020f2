"""Event streams: one thread reads for all of them, once a second, while any is open."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from typing import TYPE_CHECKING, Any, Final

import structlog

from replicator_runtime.service.observation.stored import pipeline_row
from replicator_runtime.service.observation.streaming.topics import Numbers, Topic, Written
from replicator_runtime.service.problems import NO_DATABASE, ProblemError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping

    from replicator_runtime.service.observation.observation import Observation
    from replicator_runtime.service.observation.state_reader import Seen
    from replicator_runtime.service.store.database import Database

READ_SECONDS: Final = 1.0
AWAY_SECONDS: Final = 10.0
"""Streams end when what they show could not be read for so long: a page then says that what it shows may be old."""
_LOOK_SECONDS: Final = 2.0
_SOON: Final = {"Retry-After": "2"}
_KEPT_SECONDS: Final = 60.0
"""How long what was sent is remembered after the last stream has ended, for one that comes again."""
_LONGEST_SECONDS: Final = 900.0
"""A stream ends then, and its reader comes again by itself: with a token that is still valid."""
_BY_TABLE: Final = frozenset({"tables", "metrics"})
"""Parts of a status that grow with its tables, each of which has an event of its own."""
_PART_CHARACTERS: Final = 32_768
log = structlog.get_logger()


class Streams:
    """All event streams of a service. Safe from any thread.

    Args:
        database: The service's.
        observation: Reads the pipelines' state.
        items: Gives the list items of a namespace's pipelines, by name: JSON.
        item: Gives that of one pipeline, by namespace and name; raises `ProblemError` when there is none.
    """

    def __init__(
        self,
        database: Database,
        observation: Observation,
        items: Callable[[str], Mapping[str, str]],
        item: Callable[[str, str], Mapping[str, Any]],
    ) -> None:
        self._database, self._observation, self._items, self._item = database, observation, items, item
        self._numbers = Numbers()
        self._topics: dict[tuple[str, str | None], Topic] = {}
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._new: set[Topic] = set()
        self._made: dict[tuple[str, str], tuple[Seen, dict[str, tuple[str, Any]]]] = {}
        self._reads_since: float | None = None
        self._closed = False

    def fleet(self, namespace: str) -> Topic:
        """What the stream of a namespace shows: its pipelines."""
        return self._topic((namespace, None), lambda: self._read_fleet(namespace))

    def pipeline(self, namespace: str, name: str) -> Topic:
        """What the stream of a pipeline shows: itself, its status and its tables."""
        return self._topic((namespace, name), lambda: self._read_pipeline(namespace, name))

    @property
    def count(self) -> int:
        """How many streams are open."""
        with self._changed:
            return sum(topic.streams for topic in self._topics.values())

    async def events(self, topic: Topic, last_id: str | None) -> AsyncIterator[bytes]:
        """The events of a stream, as they are sent, without end (`_LONGEST_SECONDS`).

        Args:
            topic: What it shows.
            last_id: Of the last event that its reader has; None for a reader that has none, which is sent all.
        """
        woken, ends = asyncio.Event(), time.monotonic() + _LONGEST_SECONDS
        topic = self._kept(topic)
        with topic.listening(woken):
            self._look_soon(topic)
            number = topic.beginning(last_id)
            while not self._closed and time.monotonic() < ends and not self._is_away(topic):
                woken.clear()
                events = topic.since(number)
                for part in _parts(events):
                    number = part[-1][3]
                    yield "".join(f"id: {id_}\nevent: {kind}\ndata: {data}\n\n" for id_, kind, data, _ in part).encode()
                if not events:
                    await _first_of(woken, min(_LOOK_SECONDS, ends - time.monotonic()))

    def close(self) -> None:
        """End all streams."""
        self._closed = True
        with self._changed:
            topics = list(self._topics.values())
            self._changed.notify_all()
        for topic in topics:
            topic.wake()
        if self._thread is not None:
            self._thread.join(10)

    def _topic(self, key: tuple[str, str | None], read: Callable[[], Mapping[str, tuple[str, Any]]]) -> Topic:
        return self._kept(Topic(self._numbers, read, key))

    def _kept(self, topic: Topic) -> Topic:
        """The topic of its key, which is not forgotten before a stream that begins soon."""
        with self._changed:
            kept = self._topics.setdefault(topic.key, topic)
            kept.keep()
            return kept

    def _look_soon(self, topic: Topic) -> None:
        """Have the thread read for a stream that has just begun."""
        with self._changed:
            self._new.add(topic)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._loop, name="streams", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def _loop(self) -> None:
        due = time.monotonic() + READ_SECONDS
        while True:
            with self._changed:
                if not self._new:
                    self._changed.wait(max(0.0, due - time.monotonic()))
                self._forget_left()
                if self._closed or not self._topics:
                    self._thread = None
                    return
                topics, self._new = self._new, set()
                if time.monotonic() >= due:  # also while streams begin all the time
                    due = time.monotonic() + READ_SECONDS
                    topics |= {topic for topic in self._topics.values() if topic.streams}
            for topic in topics:
                self._refresh(topic)

    def _refresh(self, topic: Topic) -> None:
        self._reads_since = time.monotonic()
        try:
            topic.refresh()
            topic.fails_since = None
        except Exception as error:  # noqa: BLE001 - the next second may do better; other streams go on
            log.warning("service.stream_not_read", kind=type(error).__name__)
            topic.fails_since = topic.fails_since or self._reads_since
        finally:
            self._reads_since = None

    def _is_away(self, topic: Topic) -> bool:
        """Whether what a topic shows could not be read for so long that no one should take it for what is."""
        since = [at for at in (topic.fails_since, self._reads_since) if at is not None]
        return bool(since) and time.monotonic() - min(since) > AWAY_SECONDS

    def check(self, topic: Topic) -> None:
        """Do nothing when a topic is read; else have it read again soon.

        Raises:
            ProblemError: 503 RPL-1542 when it could not be read for `AWAY_SECONDS`.
        """
        if self._is_away(topic):
            self._look_soon(topic)
            raise ProblemError(
                503, NO_DATABASE, "the service's database does not answer", hint="look at --store", headers=_SOON
            )

    def _forget_left(self) -> None:
        oldest = time.monotonic() - _KEPT_SECONDS
        for key, topic in list(self._topics.items()):
            if topic.left_at is not None and topic.left_at < oldest:
                del self._topics[key]
                namespace, name = key
                self._made.pop((namespace, name or ""), None)

    def _read_fleet(self, namespace: str) -> dict[str, tuple[str, Any]]:
        return {f"pipeline:{name}": ("pipeline", Written(text)) for name, text in self._items(namespace).items()}

    def _read_pipeline(self, namespace: str, name: str) -> dict[str, tuple[str, Any]]:
        try:
            row = pipeline_row(self._database, namespace, name)
            item = self._item(namespace, name)
        except ProblemError:  # it was deleted
            return {}
        return {
            f"pipeline:{name}": ("pipeline", item),
            **self._of_state((namespace, name), self._observation.look(row)),
        }

    def _of_state(self, key: tuple[str, str], seen: Seen) -> dict[str, tuple[str, Any]]:
        """Status and tables; made once of what was seen."""
        known = self._made.get(key)
        if known is not None and known[0] is seen:
            return known[1]
        found: dict[str, tuple[str, Any]] = {
            f"table:{table}": ("table", Written(json.dumps(row, ensure_ascii=False)))
            for table, row in seen.rows.items()
        }
        if seen.status is not None:
            found["status:"] = ("status", {key: value for key, value in seen.status.items() if key not in _BY_TABLE})
        self._made[key] = (seen, found)
        return found


async def _first_of(woken: asyncio.Event, seconds: float) -> None:
    try:
        await asyncio.wait_for(woken.wait(), max(0.0, seconds))
    except TimeoutError:
        return


def _parts(events: list[tuple[str, str, str, int]]) -> Iterator[list[tuple[str, str, str, int]]]:
    """The events in parts that are sent at once, bounded in size: one by one each would cost a call of the server."""
    part: list[tuple[str, str, str, int]] = []
    size = 0
    for event in events:
        part.append(event)
        size += len(event[2])
        if size >= _PART_CHARACTERS:
            yield part
            part, size = [], 0
    if part:
        yield part
