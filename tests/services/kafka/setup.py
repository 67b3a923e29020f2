"""Makes this machine ready for tests with Kafka: fetches the jars, and keeps the classes that broker and Connect load."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.services.connect.worker import ConnectWorker
from tests.services.kafka.broker import KafkaBroker
from tests.services.kafka.programs import BROKER, CONNECT, archive


def prefetch() -> None:
    """Runs both programs once where their classes are not kept yet, saying what it does."""
    kept = [archive(program) for program in (BROKER, CONNECT)]
    if not all(file.exists() for file in kept):
        _run_once()
    for file in kept:
        print(f"  {file.stem}: {file}", flush=True)  # noqa: T201  # a setup step


def _run_once() -> None:
    broker = KafkaBroker()
    worker = ConnectWorker(broker)
    try:
        with _kept(BROKER, broker.start, broker.stop):
            topic = broker.create_topic("topic")
            broker.transaction(topic, [(b"key", b"value")])
            broker.records(topic)
            with _kept(CONNECT, worker.start, worker.stop):
                pass
    finally:
        worker.remove()
        broker.remove()


@contextmanager
def _kept(program: str, start: Callable[..., object], stop: Callable[[], None]) -> Iterator[None]:
    """A program that runs as long as the block lasts and writes its classes when it ends."""
    target = archive(program)
    target.parent.mkdir(parents=True, exist_ok=True)
    partial: Path = target.with_name(f".partial-{uuid.uuid4().hex[:8]}.jsa")
    try:
        start(keep_classes=partial)
        yield
        stop()
        if partial.exists():  # without, programs start as they do everywhere, only later
            partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


if __name__ == "__main__":
    prefetch()
