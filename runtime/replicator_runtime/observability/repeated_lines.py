"""Keeps a storm of equal warnings and errors from filling the disk that the log is on."""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

LINES: Final = 100
"""So many lines of one kind pass in each span."""
FIRST_SPAN: Final = 60.0
"""The length of a span in seconds; each span in which lines are left out is followed by one twice as long."""
LONGEST_SPAN: Final = 3600.0
_KINDS: Final = 1000


@dataclass(slots=True)
class _Span:
    began: float
    length: float
    lines: int = 0
    left_out: int = 0


class RepeatedLines(logging.Filter):
    """Lets at most `LINES` warnings or errors of one kind pass in each span of time; the next one that passes says how many did not.

    Of one kind are lines of the same level, event and code, whatever their table: when the target of 1,000 tables is away, each
    of them fails again and again. The status shows every table's error. Safe from any thread; memory is bounded.

    Args:
        clock: Seconds that never go back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._spans: OrderedDict[object, _Span] = OrderedDict()
        self._lock = threading.Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the line is written; `left_out` is put into one that follows lines that were not."""
        if record.levelno < logging.WARNING:
            return True
        with self._lock:
            span, left_out = self._span(_kind(record))
            span.lines += 1
            if span.lines > LINES:
                span.left_out += 1
                return False
        if left_out:
            _note(record, left_out)
        return True

    def _span(self, kind: object) -> tuple[_Span, int]:
        """The span of this kind of line, and how many were left out in the span that ended with this line."""
        now = self._clock()
        span = self._spans.pop(kind, None)
        left_out = 0
        if span is None:
            span = _Span(now, FIRST_SPAN)
        elif now - span.began >= span.length:
            left_out = span.left_out
            lasts = left_out and now - span.began < 2 * span.length
            span = _Span(now, min(LONGEST_SPAN, 2 * span.length) if lasts else FIRST_SPAN)
        self._spans[kind] = span
        if len(self._spans) > _KINDS:
            self._spans.popitem(last=False)
        return span, left_out


def _kind(record: logging.LogRecord) -> object:
    message: Any = record.msg
    if isinstance(message, dict):
        return record.levelno, str(message.get("event")), str(message.get("code", ""))
    return record.levelno, record.name, str(message)[:200]


def _note(record: logging.LogRecord, left_out: int) -> None:
    message: Any = record.msg
    if isinstance(message, dict):
        record.msg = {**message, "left_out": left_out}
    else:
        record.left_out = left_out
