"""Faults at random before BigQuery, the Storage Write API and Cloud Storage; the same seed makes the same choices.

How many faults follow each other is bounded for each request, so that whoever repeats it gets through.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

import grpc

from tests.services.bigquery.change_ingestion import StreamFault
from tests.services.bigquery.emulators import Emulators
from tests.services.bigquery.gate import Fault, Request
from tests.services.bigquery.write_gate import Loss

_LONGEST_DELAY = 0.3
T = TypeVar("T")


@dataclass
class Chaos:
    """Chooses faults. Safe from several threads.

    Args:
        seed: Of all choices; threads may ask in another order next time.
        often: The part of requests that meets a fault.
        most: How many faults in a row one request meets at most.

    Attributes:
        met: How often each kind of fault was chosen.
    """

    seed: int
    often: float = 0.15
    most: int = 3
    met: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._chance = random.Random(self.seed)
        self._row: Counter[str] = Counter()
        self._lock = threading.Lock()

    def of_request(self, request: Request) -> Fault:
        """What a request of BigQuery's REST interface meets."""
        asked = str((request.body or {}).get("jobReference", {}).get("jobId", "")) if request.kind != "other" else ""
        kinds = {
            "429": Fault(status=429),
            "503": Fault(status=503),
            "500": Fault(status=500, reason="internalError"),
            "quota": Fault(status=403, reason="quotaExceeded"),
            "late": Fault(seconds=self._chance.uniform(0.05, _LONGEST_DELAY)),
            "late and lost": Fault(seconds=0.1, lose_answer=True),
            "lost": Fault(lose_answer=True),
            "cut": Fault(cut=True),
        }
        if asked:
            kinds["job fails"] = Fault(fails=True, reason="backendError")
        return self._choose(f"{request.method} {request.path.split('?')[0]} {asked}", kinds, Fault())

    def of_call(self, method: str) -> Loss:
        """What a call of the Storage Write API meets, or a request of a stream."""
        return self._choose(f"gRPC {method}", {"answer": Loss.ANSWER, "call": Loss.CALL}, Loss.NOTHING)

    def of_stream(self) -> StreamFault | None:
        """What a connection of change ingestion meets."""
        codes = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.ABORTED, grpc.StatusCode.RESOURCE_EXHAUSTED)
        kinds: dict[str, StreamFault | None] = {
            f"{code.name} after {n}": StreamFault(after=n, code=code) for code in codes for n in (0, 1)
        }
        return self._choose("change ingestion", kinds, None)

    def _choose(self, asked: str, kinds: Mapping[str, T], nothing: T) -> T:
        with self._lock:
            if self._row[asked] >= self.most or self._chance.random() >= self.often:
                self._row[asked] = 0
                return nothing
            name = self._chance.choice(sorted(kinds))
            self._row[asked] += 1
            self.met[name] += 1
            return kinds[name]

    @contextmanager
    def before(self, emulators: Emulators) -> Iterator[None]:
        """Let all requests of these emulators meet faults for a time."""
        emulators.gate.chaos = self.of_request
        emulators.write_gate.chaos = self.of_call
        emulators.streaming.chaos = self.of_stream
        try:
            yield
        finally:
            emulators.gate.chaos = emulators.write_gate.chaos = emulators.streaming.chaos = None
