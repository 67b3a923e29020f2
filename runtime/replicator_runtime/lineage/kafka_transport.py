"""Events to a Kafka topic: OpenLineage's transport, which says here whether an event has arrived."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaError, KafkaException, Producer
from openlineage.client.serde import Serde
from openlineage.client.transport import kafka

from replicator_runtime.lineage.publisher import RefusedError
from replicator_runtime.lineage.transport import EVENT_SECONDS

if TYPE_CHECKING:
    from openlineage.client.client import Event

_DEFAULTS: Final = {
    "message.timeout.ms": int(EVENT_SECONDS * 1000),
    "socket.connection.setup.timeout.ms": int(EVENT_SECONDS * 1000),
    "topic.metadata.propagation.max.ms": 1000,  # else a topic that does not exist is waited for, longer than an event
    "log_level": 0,  # the library writes to the terminal each second that brokers cannot be reached
}
"""Of librdkafka's settings; those of `config` win."""
_REFUSED: Final = frozenset(
    {KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_MSG, KafkaError.INVALID_RECORD, KafkaError.POLICY_VIOLATION}
)


class NotDeliveredError(Exception):
    """The brokers did not take an event; they may have it, though."""


class KafkaTransport(kafka.KafkaTransport):
    """Takes the settings `topic`, `config` and `messageKey` of OpenLineage's transport, and keys events as it does.

    OpenLineage's own waits for brokers without end, and only logs what was not delivered, which Kafka's client gives up after
    five minutes.
    """

    producer: Any

    def emit(self, event: Event) -> None:
        """Send an event, and wait until the brokers have it.

        Raises:
            RefusedError: When they never take it, such as one that is larger than the topic allows.
            NotDeliveredError: When they did not take it.
        """
        failed: list[KafkaError] = []

        def delivered(error: KafkaError | None, _: object) -> None:
            if error is not None:
                failed.append(error)

        value = Serde.to_json(event).encode()
        try:
            self.producer.produce(
                self.topic, value, self.message_key or self._get_message_key(event), on_delivery=delivered
            )
            if left := self.producer.flush(2 * EVENT_SECONDS):
                self.producer.purge()
                raise NotDeliveredError(f"topic {self.topic}: {left} events have not arrived{self._trouble}")
        except KafkaException as error:
            failed.append(error.args[0])
        if failed and failed[0].code() in _REFUSED:
            raise RefusedError(failed[0].name())
        if failed:
            raise NotDeliveredError(f"topic {self.topic}: {failed[0].str()}{self._trouble}")

    def _setup_producer(self, config: dict[str, Any]) -> None:
        self._trouble = ""
        self.producer = Producer({**_DEFAULTS, "error_cb": self._note, **config})

    def _note(self, error: KafkaError) -> None:
        """Of a broker or of all; called while an event is waited for."""
        self._trouble = f"; {error.str()}"
