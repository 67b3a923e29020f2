"""Translates errors of brokers and client: the error class decides the recovery, the hint names the next step."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from replicator_sdk.errors import NeedsUserError, ReplicatorError, RetryableError
from replicator_source_kafka.client.fail_fast import answers_otherwise, is_permanent, is_tls_error
from replicator_source_kafka.record_batches.decoding import OldFormatError
from replicator_source_kafka.record_batches.record_fields import CorruptBatchError

NEW_SNAPSHOT = "let the connector snapshot its tables again, then `replicator reset PIPELINE`: every table is emptied and filled from the topics"

FROM_NEW_SNAPSHOT = "let the connector snapshot its tables again, set `startFrom` to the time when that snapshot began, then `replicator reset PIPELINE`: every table is emptied and filled from the topics"
"""For topics whose earlier records must not be read again: they are out of order, or deletes among them are lost."""

REFILL = "raise delete.retention.ms of the topic above the longest time in which nothing is read, then `replicator reset PIPELINE`: every table is emptied and filled from the topics; or, where the tables' rows are never removed, set `onMissedDeletes` to warn before it"
"""For compacted topics, which still have the newest values of each key."""

REFILL_TABLE = "raise delete.retention.ms of the topic above the longest time in which nothing is read, then `replicator reset PIPELINE`: every table is emptied and filled from the topics; or, for this table alone, take it out of `tables` (by `exclude`) and its topic out of `topics` or `topicPattern`, and replicate it by a pipeline of its own, with another `name` and target folder; or, where the tables' rows are never removed, set `onMissedDeletes` to warn before it"
"""The same for one table."""

OWN_PIPELINE = "let the connector snapshot the table again; take it out of `tables` (by `exclude`) and its topic out of `topics` or `topicPattern`, and replicate it by a pipeline of its own, with another `name` and target folder"
"""For one table whose topic lost some of its changes."""

RECORDS_GONE = "RPL-3971"
"""The code of records that retention deleted while they were read, as a broker's answer says it."""


@contextlib.contextmanager
def diagnosed(doing: str, *, table: str | None = None) -> Iterator[None]:
    """Translate errors of the client into `ReplicatorError`s.

    Raises:
        ReplicatorError: For errors of client and network; other errors are raised unchanged.
    """
    try:
        yield
    except ReplicatorError:
        raise
    except ImportError as error:
        raise NeedsUserError(
            f"the Python package {error.name} is missing",
            code="RPL-3960",
            hint="pip install 'replicator[kafka]'",
        ) from error
    except Exception as error:
        translated = _translated(error, doing, table)
        if translated is None:
            raise
        raise translated from error


def _translated(error: Exception, doing: str, table: str | None) -> ReplicatorError | None:
    if isinstance(error, OldFormatError):
        return NeedsUserError(
            f"{doing}: the topic holds records from before Kafka 0.11",
            code="RPL-3961",
            hint="copy the topic into a new one with a current producer",
            table=table,
        )
    if answers_otherwise(error):
        return NeedsUserError(
            f"{doing}: a server answers that does not speak Kafka's protocol, or not with this security.protocol",
            code="RPL-3975",
            hint="check the host and port in bootstrapServers, and that security.protocol is what the brokers have there",
        )
    if isinstance(error, (CorruptBatchError, ConnectionError, TimeoutError)):
        return RetryableError(
            f"{doing}: {_name(error)}", code="RPL-3962", hint="check the brokers and the network between"
        )
    if _is_kafka(error) or is_tls_error(error):
        return _of_kafka(error, doing, table)
    return None


def _of_kafka(error: Exception, doing: str, table: str | None) -> ReplicatorError:
    from kafka import errors

    if is_permanent(error):
        return _of_permanent_error(error, doing, table)
    if isinstance(error, errors.OffsetOutOfRangeError):
        hint = "the attempt is repeated, and says which records are lost, if any that were not read; give another command again"
        return RetryableError(f"{doing}: the broker no longer has these records", code=RECORDS_GONE, hint=hint)
    if isinstance(error, errors.LeaderNotAvailableError):
        hint = "if it persists, check the brokers"
        return RetryableError(f"{doing}: the partition {error.args[0]} has no leader", code="RPL-3968", hint=hint)
    hint = "check that the brokers run, and bootstrapServers, security.protocol and the network between"
    return RetryableError(f"{doing}: {_name(error)}", code="RPL-3967", hint=hint)


def _of_permanent_error(error: Exception, doing: str, table: str | None) -> NeedsUserError:
    from kafka import errors

    if is_tls_error(error):
        hint = (
            "set ssl.ca.location to the certificate authority of the broker, and use the host name in its certificate"
        )
        return NeedsUserError(f"{doing}: TLS failed", code="RPL-3966", hint=hint)
    if isinstance(error, errors.KafkaConfigurationError):
        return NeedsUserError(f"{doing}: {error}", code="RPL-3965", hint="fix the pipeline's kafka settings")
    if isinstance(error, errors.AuthorizationError):
        hint = "grant DESCRIBE and READ on the topics (and READ on the group, where group.id is set)"
        return NeedsUserError(
            f"{doing}: the broker forbids it ({_name(error)})", code="RPL-3964", hint=hint, table=table
        )
    hint = "check sasl.mechanism, sasl.username and sasl.password in the pipeline's kafka settings"
    return NeedsUserError(f"{doing}: the broker refuses the login", code="RPL-3963", hint=hint)


def concerns_topics(error: Exception) -> bool:
    """Whether the error may come from a topic that was deleted or created again."""
    if not _is_kafka(error):
        return False
    from kafka import errors

    about = (errors.UnknownTopicOrPartitionError, errors.UnknownTopicIdError, errors.InconsistentTopicIdError)
    return isinstance(error, (*about, errors.OffsetOutOfRangeError))


def _is_kafka(error: Exception) -> bool:
    return type(error).__module__.startswith("kafka.")


def _name(error: Exception) -> str:
    """The error's kind only; its text may hold secrets or values."""
    return type(error).__name__.removesuffix("Error")
