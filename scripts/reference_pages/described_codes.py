"""Meanings of error codes whose class or message the code builds from parts, so that no parser can read them."""

from __future__ import annotations

from collections.abc import Mapping

# The next step for a record that cannot be read.
_POISON = (
    "look at the record (topic, partition and offset are in the message); fix the producer, or set `onPoison` to"
    " `quarantine` to set such records aside"
)
_OUT_OF_RANGE = (
    "fix the rows at the source, or set `outOfRange` in the properties of the target, or of the source, which takes"
    ' precedence, to "null" or "clamp"'
)

# Code → class, message and next step.
BY_HAND: Mapping[str, tuple[str, str, str]] = {
    "RPL-1522": (
        "NeedsUserError",
        "a pipeline's process was started where this service cannot see it",
        "see that it does not run there any more, then start the pipeline again",
    ),
    "RPL-1530": (
        "RetryableError",
        "a pipeline's process was started on another host, and it is not known yet that it is gone",
        "wait about two minutes; end it on that host where its lease is renewed: another one is started here then",
    ),
    "RPL-1529": (
        "NeedsUserError",
        "the pipeline ran, and nothing of it is found now: …",
        "see that what holds its state is reachable, then delete it again; where its state is lost, that removes the pipeline, and what is at the source stays",
    ),
    "RPL-1523": (
        "RetryableError",
        "a pipeline's process cannot be started",
        "see that the machine has memory, disk space and processes left; it is tried again",
    ),
    "RPL-1524": (
        "RetryableError",
        "a pipeline's process ended without a report",
        "look at the end of its log; where it was killed by signal 9, whether the machine ran out of memory",
    ),
    "RPL-3010": (
        "DataError",
        "NaN or an infinity in a number, an infinite date, one BC or after 9999, a time of 24:00:00 or an array with other bounds than 1, which the standard type of its column cannot hold",
        _OUT_OF_RANGE,
    ),
    "RPL-3510": (
        "DataError",
        "a value does not fit the type that its column is declared with; SQLite stores it nevertheless",
        _OUT_OF_RANGE,
    ),
    "RPL-3736": (
        "DataError",
        "a date in the year 0, or a day that its month does not have, which the standard type of its column cannot hold",
        _OUT_OF_RANGE,
    ),
    "RPL-3905": (
        "DataError",
        "a time or number outside what the standard type of its column holds, or with more digits",
        _OUT_OF_RANGE,
    ),
    "RPL-1003": (
        "ConfigError",
        "a setting is unknown, missing or wrong",
        "the message names it and the nearest known one",
    ),
    "RPL-1004": (
        "ConfigError",
        "a macro has no value",
        "set what the message names: variable, file or keyring entry",
    ),
    "RPL-1005": (
        "ConfigError",
        "stages and connections do not make one source and one target",
        "join exactly one cdcSource to one cdcTarget",
    ),
    "RPL-1006": (
        "ConfigError",
        "an entry of `notifications` has a URL of a service that may not be used, or the package apprise is not installed",
        "the message names it: use one of the schemes that it lists, or `pip install 'replicator[notifications]'`",
    ),
    "RPL-2061": (
        "ConfigError",
        "an entry of `tables` has a `where`, and the source copies whole tables only, or none",
        "remove `where`",
    ),
    "RPL-2065": (
        "ConfigError",
        "`snapshot.mode` is not `initial`, and the source copies no tables",
        "remove `mode`",
    ),
    "RPL-2071": (
        "ConfigError",
        "`snapshot.from` is given, and the source finds no position of its log by that",
        "give the other one of `offset` and `time`, if the source finds one by it; or remove `from`",
    ),
    "RPL-1101": (
        "ConfigError",
        "no installed package offers a plugin of that name",
        "correct the name, or `pip install` the package that offers it; `replicator plugins` lists what is installed",
    ),
    "RPL-3304": (
        "NeedsUserError",
        "the publication does not exist, or does not publish what the pipeline selects, and may not be changed",
        "run the SQL that the message shows as the publication's owner",
    ),
    "RPL-3900": (
        "DataError",
        "a record of a topic is not JSON, Avro or Protobuf, or not of the type its schema says",
        _POISON,
    ),
    "RPL-3904": (
        "DataError",
        "a value of a record without a schema does not fit the type `columnTypes` gives its column",
        _POISON,
    ),
    "RPL-3907": (
        "DataError",
        "a record has no key, and its table needs one",
        _POISON,
    ),
    "RPL-3909": (
        "DataError",
        "a tombstone names the deleted row by its key only, and the table's name is in a field of the value",
        _POISON,
    ),
    "RPL-3910": (
        "DataError",
        "a change record has no operation, or one that is not known",
        _POISON,
    ),
    "RPL-3911": (
        "DataError",
        "a change record has no row",
        _POISON,
    ),
    "RPL-3912": (
        "DataError",
        "a record does not say which table it belongs to",
        _POISON,
    ),
    "RPL-3913": (
        "DataError",
        "an update or delete of a table without a key does not carry the row before it",
        _POISON,
    ),
    "RPL-3914": (
        "DataError",
        "a value of a record is not of the form its semantic type has",
        _POISON,
    ),
    "RPL-3915": (
        "DataError",
        "a record of the format's topics has no Debezium envelope, or a schema without a row",
        _POISON,
    ),
    "RPL-3916": (
        "DataError",
        "the key of a record is a bare value, which names no column",
        _POISON,
    ),
    "RPL-3917": (
        "DataError",
        "a record of a topic of Debezium's envelopes has no value, and its key has other columns or types than the table's",
        _POISON,
    ),
    "RPL-3918": (
        "DataError",
        "a record is taken by none of the rules in `routes`",
        "add a rule that takes it, without a `table` where such records are to be passed over; or set `onPoison` to `quarantine` to set such records aside",
    ),
    "RPL-3919": (
        "DataError",
        "a record's `operationField` is missing, or has a value that `operations` does not name",
        "name the value in `operations`, or fix the producer; or set `onPoison` to `quarantine` to set such records aside",
    ),
    "RPL-3930": (
        "DataError",
        "the registry does not know a record's schema id, or the schema cannot be used",
        _POISON,
    ),
    "RPL-3973": (
        "DataError",
        "a schema of Protobuf writes NULL as zero or as empty text, so that the two cannot be distinguished",
        "set `optional.for.nullables` of the connector's `value.converter` to `true` and let it write the topics again",
    ),
    "RPL-6404": (
        "SchemaDriftError",
        "existing rows do not fit the new type of a column",
        "choose what the message offers: fix the rows, or copy the table again",
    ),
    "RPL-9000": (
        "BugError",
        "an unexpected error happened",
        "run again with --debug and --log-level debug, and report it with the log",
    ),
}

# Code → what happened, for errors whose message is what was being done and the words of the server or the driver.
CAUSES: Mapping[str, str] = {
    "RPL-3101": "the server refuses user or password, or pg_hba.conf has no line that lets this user in from this host",
    "RPL-3102": "the server has no database of that name",
    "RPL-3106": "no encrypted connection came about: the server's certificate is not trusted or is for another name, or it has no TLS",
    "RPL-3107": "the server cannot be reached, or the connection was lost",
    "RPL-3108": "the server does not know a table, column, publication or slot that is named",
    "RPL-3109": "a statement took too long, or waited too long for a lock",
    "RPL-3110": "the server reports an error that none of the other codes is for",
    "RPL-3111": "wal_level is not logical, so that the log does not hold row changes",
    "RPL-3221": "the publication was created after the position of the log that is to be read, and the server reads no such log by it",
    "RPL-3801": "the server refuses user or password, or does not let this user in from this host",
    "RPL-3802": "the user lacks a right",
    "RPL-3803": "no encrypted connection came about: the server's certificate is not trusted or is for another name, or one side does without TLS",
    "RPL-3804": "the server cannot be reached, or the connection was lost",
    "RPL-3805": "the server no longer has the log after the saved offset",
    "RPL-3807": "the server ended the stream, because another replica with the same server id asked for it",
    "RPL-3808": "the server does not know a database or column that is named",
    "RPL-3809": "a statement waited too long for a lock",
    "RPL-3810": "the server reports an error that none of the other codes is for",
    "RPL-3811": "the server does not know a table that was there a moment ago",
    "RPL-3812": "the server cannot read an event of its own log: it is cut off, or its length or checksum is wrong",
    "RPL-3813": "an event of the server's log is larger than its `max_allowed_packet`, or has a wrong length",
    "RPL-3840": "the server's log_bin is off",
    "RPL-3962": "the connection to a broker was lost, or what arrived is damaged",
    "RPL-3965": "the client refuses a setting of `kafka`",
    "RPL-3967": "no broker can be reached, or one reports an error that may pass",
    "RPL-6562": "BigQuery cannot follow the change of structure in place",
    "RPL-6701": "BigQuery's change stream cannot take the table: it needs a primary key of few columns, of types that cluster",
    "RPL-6707": "BigQuery's change stream cannot follow the change of structure: a new key, new values for rows that are there, or a new name",
}
