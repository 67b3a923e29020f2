"""Watches a run beside it, and has people notified of what begins and of what is over."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final

import structlog

from replicator_runtime.config.default_paths import default_base_path
from replicator_runtime.engine.run_state.unknown_errors import summary
from replicator_runtime.engine.schedule.run_conditions import WORKS, RunConditions
from replicator_runtime.engine.views.phases import ENDED
from replicator_runtime.notices.conditions import Conditions, Key
from replicator_runtime.notices.delivery import NOT_SENT
from replicator_runtime.notices.messages import message
from replicator_runtime.notices.sender import Sender
from replicator_sdk.errors import FencedError

if TYPE_CHECKING:
    from replicator_runtime.engine.run_state.run import Run

log = structlog.get_logger()
_NOT_COPIED: Final = frozenset({"PENDING", "SNAPSHOTTING"})
_LOOK_SECONDS: Final = 2.0
_END_SECONDS: Final = 5.0
_END_LOOK_SECONDS: Final = 0.05


class Notices:
    """Looks every two seconds in a thread of its own; what fails of it fails no run, and a service that hangs holds none up.

    Args:
        run: The run, whose lease is held until `close` has returned.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._destinations = run.pipeline.destinations
        self._found = RunConditions(run, self._destinations)
        self._conditions = Conditions(len(self._destinations))
        self._senders = [Sender(destination) for destination in self._destinations]
        self._done = threading.Event()
        self._is_fenced = False
        self._said = ""
        self._thread = threading.Thread(target=self._loop, name="notifications", daemon=True)

    def start(self) -> None:
        """Begin, where the pipeline has destinations; before the status of the run before is replaced."""
        if not self._destinations:
            return
        store, known = self._run.store, self._conditions
        try:
            known.load(store)
            before = store.read_status() or {}
            if before and before["phase"] not in ENDED:
                text = f"run {before['runId']} was last seen at {before['updated']}, in the phase {before['phase']}; it was killed, or its host is gone"
                known.run_is_gone(time.time(), str(before["runId"]), text)
            if known.copying is None:
                tables = before.get("tables", ())
                is_new = self._run.config.snapshot.mode != "never"
                known.copying = is_new and (not tables or any(t["state"] in _NOT_COPIED for t in tables))
        except Exception as failure:  # noqa: BLE001 - it begins with nothing, and may report some twice
            self._say(failure)
        self._thread.start()

    def close(self, error: BaseException | None = None) -> None:
        """Send what is left, with what ended the run; waits some seconds at most. What did not arrive is reported by the next run.

        Args:
            error: What ended the run.
        """
        if not self._destinations:
            return
        self._done.set()
        self._thread.join(_END_SECONDS)
        if not (self._thread.is_alive() or self._is_fenced or isinstance(error, FencedError)):
            try:
                self._notify_the_rest(error)
            except Exception as failure:  # noqa: BLE001 - the run has its own end
                self._say(failure)
        for sender in self._senders:
            sender.close()

    def _notify_the_rest(self, error: BaseException | None) -> None:
        until = time.monotonic() + _END_SECONDS
        self._look(error, is_last=True)
        waiting = list(self._senders)
        while (waiting or any(sender.is_busy for sender in self._senders)) and time.monotonic() < until:
            now = time.time()
            self._collect(now)
            for sender in [one for one in waiting if not one.is_busy]:
                self._hand_over(sender, now, is_last=True)
                waiting.remove(sender)
            time.sleep(_END_LOOK_SECONDS)
        self._save(time.time())

    def _loop(self) -> None:
        while not self._done.wait(_LOOK_SECONDS):
            try:
                now = self._look(None)
                self._collect(now)
                for sender in self._senders:
                    self._hand_over(sender, now)
                self._save(now)
                self._said = ""
            except FencedError:
                self._is_fenced = True
                return
            except Exception as failure:  # noqa: BLE001 - data goes on
                self._say(failure)

    def _look(self, error: BaseException | None, *, is_last: bool = False) -> float:
        """Find what holds; returns when."""
        view, now, known = self._run.progress.snapshot(), time.time(), self._conditions
        ended_well = is_last and error is None and view.phase == "done" and not self._run.stop.is_set()
        found = self._found.found(view, error)
        known.update(
            now,
            found,
            may_end=view.phase in WORKS,
            at_once=ended_well,
            unknown=self._found.unknown,
            sure=self._found.sure(view),
        )
        if error is not None:
            known.forget_untold(Key("run_failing"))
        copying = self._found.is_copying(view)
        if copying is not None and known.note_copying(copying):
            known.happened(now, Key("snapshot_done"), f"{len(view.tables):,} tables")
        return now

    def _save(self, now: float) -> None:
        """Store who was notified of what."""
        self._conditions.end_events(lambda number, key: self._destinations[number].wants(key), now)
        self._conditions.save(self._run.store)

    def _collect(self, now: float) -> None:
        """Take what became of the messages that were on their way."""
        for sender in self._senders:
            if sender.hangs(now):
                log.warning("notification.hangs", code=NOT_SENT, destination=sender.destination.name)
            if (result := sender.result(now)) is None:
                continue
            why, began, ended = result
            if not why:
                self._run.metrics.count("notifications.sent")
                self._conditions.was_notified(sender.destination.number, began, ended, now)
                continue
            self._run.metrics.count("notifications.failed")
            log.warning(
                "notification.not_sent",
                code=NOT_SENT,
                destination=sender.destination.name,
                why=why,
                failures=sender.failures,
                hint="`replicator notifications test PIPELINE` sends one now; it is tried again, with what holds then",
            )

    def _hand_over(self, sender: Sender, now: float, *, is_last: bool = False) -> None:
        destination = sender.destination
        if not sender.may_send(now, is_last=is_last):
            return
        began = self._conditions.began(destination.number, now, is_last=is_last)
        began = {key: one for key, one in began.items() if destination.wants(key)}
        ended = self._conditions.ended(destination.number)
        if began or ended:
            has_base = self._run.config.offset_base_path != default_base_path()
            sender.send(message(self._name, began, ended, has_base=has_base), tuple(began), tuple(ended), now)

    @property
    def _name(self) -> str:
        config = self._run.config
        return config.name if config.namespace == "default" else f"{config.namespace}/{config.name}"

    def _say(self, failure: BaseException) -> None:
        if self._said != (said := summary(failure)):
            self._said = said
            log.warning("notifications.not_watched", error=said)
