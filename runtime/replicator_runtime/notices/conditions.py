"""Remembers which conditions hold, and who was notified: one message until a condition is over, also over restarts."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from replicator_runtime.config.sections.notifications import NoticeKind
from replicator_runtime.stored_forms import NOTICES, head, read_or_set_aside

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from replicator_state import StateStore

SURE_SECONDS: Final = 5.0
"""A condition is reported when it holds, and was there first so long ago: most faults of a network are over by then."""
EVENTS: Final[frozenset[NoticeKind]] = frozenset({"snapshot_done", "run_gone"})
"""What happens, and does not hold for a while: no one is notified that it is over."""
_SETTLE_SECONDS: Final = 30.0
_LONGEST_SETTLE: Final = 1800.0
_FLAPS_SECONDS: Final = 3600.0
_GATHER_SECONDS: Final = 3600.0
_TEXT: Final = 300


class Key(NamedTuple):
    """What a condition is of.

    Attributes:
        kind: Which one.
        about: The table it is about, or the limits that were passed; empty for the run.
    """

    kind: NoticeKind
    about: str = ""

    @property
    def is_gathered(self) -> bool:
        """Whether a destination is notified of its kind once an hour at most.

        Objectives of tables that are late for one reason are broken one after the other, and a run that is killed at each start is
        gone each minute.
        """
        return self.kind == "run_gone" or (self.kind == "objective_broken" and bool(self.about))


@dataclass(slots=True)
class Condition:
    """One condition; times in seconds since 1970.

    Attributes:
        since: When it was there first.
        text: What is said of it.
        gone_at: Since when it is not there; None while it is.
        over_at: When it was over, which it is once it has been gone for some time; None until then.
        times: How often it came within an hour, and then has to be gone for longer; of an event, how often it has happened that no one was notified of.
        notified: The destinations that were notified, and not yet that it is over.
    """

    since: float
    text: str
    gone_at: float | None = None
    over_at: float | None = None
    times: int = 1
    notified: set[int] = field(default_factory=set)

    @property
    def settles_after(self) -> float:
        """How long it must be gone to be over."""
        return min(_LONGEST_SETTLE, _SETTLE_SECONDS * 2.0 ** min(self.times - 1, 10))


class Conditions:
    """All conditions of a replicator. Used by one thread.

    Args:
        destinations: How many there are; they are distinguished by their place in the pipeline.
    """

    def __init__(self, destinations: int) -> None:
        self._all: dict[Key, Condition] = {}
        self._destinations = frozenset(range(destinations))
        self._changed = False
        self._reported: dict[tuple[NoticeKind, int], float] = {}
        self._gone_run = ""
        self.copying: bool | None = None

    def load(self, store: StateStore) -> None:
        """Take over what earlier runs knew and reported; what holds is not known yet."""
        read_or_set_aside(store, NOTICES, self._take_over)

    def _take_over(self, stored: Mapping[str, Any]) -> None:
        known = {
            Key(one["kind"], one["about"]): Condition(
                one["since"], one["text"], None, one["overAt"], one["times"], set(one["notified"]) & self._destinations
            )
            for one in stored["conditions"]
        }
        reported = {(kind, number): at for kind, number, at in stored.get("reported", ())}
        copying, gone_run = stored["copying"], stored.get("goneRun", "")
        # Not before all of it was read: what cannot be read changes nothing.
        self._all, self._reported = known, reported
        self.copying, self._gone_run = copying, gone_run

    def save(self, store: StateStore) -> None:
        """Store what has changed, durable when this returns.

        Raises:
            ReplicatorError: As the store fails; the next call stores it.
        """
        if self._changed:
            store.put(NOTICES, json.dumps(self._to_json()).encode())
            self._changed = False

    def note_copying(self, copying: bool) -> bool:
        """Whether tables are being copied now; returns whether all of them have been copied since the last call."""
        ended = bool(self.copying) and not copying
        self._changed |= copying != self.copying
        self.copying = copying
        return ended

    def run_is_gone(self, now: float, run_id: str, text: str) -> None:
        """A run was found to have ended without a word; the same run is reported once."""
        if run_id != self._gone_run:
            self._gone_run = run_id
            self.happened(now, Key("run_gone"), text)

    def update(
        self,
        now: float,
        found: Mapping[Key, str],
        *,
        may_end: bool,
        at_once: bool = False,
        unknown: Collection[NoticeKind] = (),
        sure: Collection[Key] = (),
    ) -> None:
        """What holds now.

        Args:
            now: The time.
            found: The conditions that hold, and what is said of each.
            may_end: Whether the others are known not to hold; otherwise nothing is known of them.
            at_once: Whether those that do not hold are over without having to stay away.
            unknown: Kinds of which nothing is known.
            sure: Those that have held for long when they are found, and are reported at once.
        """
        self._turn_back(now)
        for key, text in found.items():
            self._holds(key, text[:_TEXT], now - SURE_SECONDS if key in sure else now)
        for key in [key for key in self._all if key not in found and key.kind not in EVENTS]:
            self._holds_not(key, now, may_end=may_end and key.kind not in unknown, at_once=at_once)

    def happened(self, now: float, key: Key, text: str) -> None:
        """Something that is over as soon as it is reported, such as the end of a copy."""
        before = self._all.get(key)
        times = 1 if before is None else before.times + 1
        self._all[key] = Condition(now - SURE_SECONDS, text[:_TEXT], times=times)
        self._changed = True

    def forget_untold(self, key: Key) -> None:
        """Forget a condition that no one was notified of, since another says more."""
        if (one := self._all.get(key)) is not None and not one.notified:
            del self._all[key]
            self._changed = True

    def began(self, destination: int, now: float, *, is_last: bool = False) -> dict[Key, Condition]:
        """The conditions that hold and that this destination was not notified of; with `is_last` those that have just come, too.

        Those that are gathered wait until an hour after the last message about their kind.
        """
        sure = 0.0 if is_last else SURE_SECONDS
        return {
            key: one
            for key, one in self._all.items()
            if one.gone_at is None and destination not in one.notified and now - one.since >= sure
            if not (key.is_gathered and now - self._reported.get((key.kind, destination), -math.inf) < _GATHER_SECONDS)
        }

    def ended(self, destination: int) -> dict[Key, Condition]:
        """The conditions that are over, of which this destination was notified that they hold."""
        return {key: one for key, one in self._all.items() if one.over_at is not None and destination in one.notified}

    def was_notified(self, destination: int, began: Iterable[Key], ended: Iterable[Key], now: float) -> None:
        """The destination has a message of these."""
        for key in began:
            if (one := self._all.get(key)) is not None:
                one.notified.add(destination)
            if key.is_gathered:
                self._reported[key.kind, destination] = now
        for key in ended:
            if (one := self._all.get(key)) is not None:
                one.notified.discard(destination)
        self._changed = True
        self._forget(now)

    def end_events(self, wants: Callable[[int, Key], bool], now: float) -> None:
        """Forget what happened once all who want to know were notified, or a day later."""
        for key in [key for key in self._all if key.kind in EVENTS]:
            one = self._all[key]
            waiting = any(wants(number, key) for number in self._destinations - one.notified)
            if not waiting or now - one.since > 24 * _FLAPS_SECONDS:
                del self._all[key]
                self._changed = True

    def _turn_back(self, now: float) -> None:
        """No time is later than now: when the clock was ahead and is right again, nothing waits until that time comes once more."""
        for one in self._all.values():
            one.since = min(one.since, now)
            one.gone_at = None if one.gone_at is None else min(one.gone_at, now)
            one.over_at = None if one.over_at is None else min(one.over_at, now)
        self._reported = {key: min(at, now) for key, at in self._reported.items()}

    def _holds(self, key: Key, text: str, since: float) -> None:
        one = self._all.get(key)
        if one is None:
            self._all[key] = Condition(since, text)
            self._changed = True
        elif one.over_at is not None:
            times = one.times + 1 if since - one.over_at < _FLAPS_SECONDS else 1
            self._all[key] = Condition(since, text, times=times, notified=one.notified)
            self._changed = True
        elif one.gone_at is not None:
            one.gone_at, one.text = None, text
            self._changed = True

    def _holds_not(self, key: Key, now: float, *, may_end: bool, at_once: bool) -> None:
        one = self._all[key]
        if one.over_at is not None:
            self._forget_one(key, now)
        elif not may_end:
            one.gone_at = None
        elif one.gone_at is None:
            one.gone_at, self._changed = now, True
        is_gone = may_end and one.gone_at is not None and one.over_at is None
        if is_gone and (at_once or now - (one.gone_at or now) >= one.settles_after):
            one.over_at, self._changed = now, True

    def _forget(self, now: float) -> None:
        for key in list(self._all):
            self._forget_one(key, now)

    def _forget_one(self, key: Key, now: float) -> None:
        one = self._all[key]
        if one.over_at is not None and not one.notified and now - one.over_at >= _FLAPS_SECONDS:
            del self._all[key]
            self._changed = True

    def _to_json(self) -> dict[str, Any]:
        conditions = [
            {
                "kind": key.kind,
                "about": key.about,
                "since": one.since,
                "text": one.text,
                "overAt": one.over_at,
                "times": one.times,
                "notified": sorted(one.notified),
            }
            for key, one in self._all.items()
        ]
        reported = [(kind, number, at) for (kind, number), at in self._reported.items() if number in self._destinations]
        return {
            **head(NOTICES),
            "copying": self.copying,
            "goneRun": self._gone_run,
            "reported": reported,
            "conditions": conditions,
        }
