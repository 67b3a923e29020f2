"""How far executors were sent, so that one reader does not go on where their work may be half done.

Tables take a slice one after the other. When a run ends in the middle, some stand at its end and some at its start, and only the
same slice, to the same end, brings them together again. Windows of one reader end elsewhere: it would miss what lies between, or
apply it twice.
"""

from __future__ import annotations

import json
from typing import Final

from replicator_sdk.context import DeltaSourceContext
from replicator_sdk.errors import NeedsUserError
from replicator_source_kafka.offset import KafkaOffset

_KEY: Final = "slice-end"


class SentSlices:
    """The end of the furthest slice. Used by one thread.

    Args:
        context: State.
    """

    def __init__(self, context: DeltaSourceContext) -> None:
        self._context = context
        stored = context.get_state(_KEY)
        self._furthest = None if stored is None else KafkaOffset.from_json(json.loads(stored))

    def add(self, end: KafkaOffset) -> None:
        """A slice up to `end` is about to be read; durable on return."""
        if self._furthest is None or self._furthest < end:
            self._furthest = end
            self._context.put_state(_KEY, json.dumps(end.to_json(), separators=(",", ":")).encode())

    def check_done(self, place: KafkaOffset) -> None:
        """See that all slices are behind `place`, from which one reader is to go on.

        Raises:
            NeedsUserError: When one may be half done.
        """
        if self._furthest is not None and place < self._furthest:
            raise NeedsUserError(
                "executors were reading these topics and did not come to the end: some tables may be ahead of others",
                code="RPL-3983",
                position=str(place),
                hint='set "distributed" to true once more, run until it is current and every table replicates,'
                " stop it in order, and change the setting then",
            )
