"""Where the first start begins, and whether a later one still finds what it needs."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from replicator_sdk.errors import HistoryLostError, NeedsUserError, RetryableError, SchemaDriftError
from replicator_source_kafka.client import EARLIEST, LATEST, Cluster
from replicator_source_kafka.config import KafkaConfig
from replicator_source_kafka.diagnosis import NEW_SNAPSHOT
from replicator_source_kafka.offset import KafkaOffset
from replicator_source_kafka.ranges import Place
from replicator_source_kafka.topics import Topic

_AGAIN = "let the connector snapshot its tables again and start the pipeline under another `name` with another place at the target"


def find_topics(cluster: Cluster, config: KafkaConfig) -> dict[str, Topic]:
    """The topics to read that there are now, by name.

    Raises:
        NeedsUserError: When one that the settings name is not there.
    """
    found = cluster.topics(config.named_topics if config.topics else None)
    if missing := sorted(set(config.named_topics) - set(found)):
        raise NeedsUserError(
            f"there is no topic {missing[0]}",
            code="RPL-3951",
            hint="check the name, and that the login may DESCRIBE the topic",
        )
    return {name: found[name] for name in sorted(found) if config.wants(name)}


def check_begun(ends: Mapping[Place, int]) -> None:
    """See that there ever was a record, as only records tell of tables.

    Raises:
        RetryableError: When none of the partitions, which end at `ends`, ever had one; a run waits for it then.
    """
    if not any(ends.values()):
        raise RetryableError(
            "none of the topics has ever held a record, and only records tell which tables there are",
            code="RPL-3982",
            hint="let the connector write its first one, or check topics and topicPattern; the attempt is repeated",
        )


def resolve_start(cluster: Cluster, config: KafkaConfig, topics: Mapping[str, Topic]) -> KafkaOffset:
    """The settings' `startFrom` as plain offsets.

    Raises:
        NeedsUserError: When it names offsets that are not there.
    """
    earliest = dict.fromkeys(_places(topics), EARLIEST)
    chosen = config.start_from
    if chosen == "latest":
        begin = cluster.offsets(dict.fromkeys(earliest, LATEST))
    elif isinstance(chosen, datetime):
        begin = cluster.offsets(dict.fromkeys(earliest, int(chosen.timestamp() * 1000)))
    else:
        begin = cluster.offsets(earliest)
    if isinstance(chosen, dict):
        begin = _chosen(cluster, chosen, begin)
    return KafkaOffset({name: topic.id for name, topic in topics.items()}, begin)


def _chosen(cluster: Cluster, chosen: Mapping[str, Mapping[int, int]], begin: Mapping[Place, int]) -> dict[Place, int]:
    wanted = {(topic, partition): there for topic, parts in chosen.items() for partition, there in parts.items()}
    ends = cluster.offsets(dict.fromkeys(begin, LATEST))
    for place, there in wanted.items():
        if place not in begin or not begin[place] <= there <= ends[place]:
            span = f"it has {begin[place]} to {ends[place]}" if place in begin else "there is no such partition"
            raise NeedsUserError(
                f"startFrom names offset {there} of {place[0]}-{place[1]}: {span}",
                code="RPL-3952",
                hint="choose an offset in between, or `earliest`",
            )
    return {**begin, **wanted}


def check_place(cluster: Cluster, config: KafkaConfig, place: KafkaOffset) -> None:
    """See whether the topics are still those of `place`, and hold everything behind it.

    Raises:
        ReplicatorError: When they are not; what `check_same_topics`, `check_reach` and `grown` raise.
    """
    topics = find_topics(cluster, config)
    check_same_topics(topics, place)
    check_reach(cluster, place)
    grown(config, topics, place)


def with_newcomers(cluster: Cluster, config: KafkaConfig, place: KafkaOffset) -> KafkaOffset:
    """`place`, and what came since at its beginning: topics that match, partitions where the settings want them read.

    Raises:
        ReplicatorError: When topics are no longer what they were; what `check_same_topics` and `grown` raise.
    """
    topics = find_topics(cluster, config)
    check_same_topics(topics, place)
    new = {name: topic for name, topic in topics.items() if name not in place.topics}
    places = [*grown(config, topics, place), *_places(new)]
    ids = {name: topic.id for name, topic in new.items()}
    return place.joined(ids, cluster.offsets(dict.fromkeys(places, EARLIEST))) if places else place


def grown_topics(place: KafkaOffset, later: KafkaOffset) -> set[str]:
    """Topics of `place` that have more partitions at `later`."""
    return {topic for topic, partition in later.next if (topic, partition) not in place.next} & set(place.topics)


class Newcomers:
    """Lets topics and partitions join a place. Used by one thread.

    Where a topic got more partitions, keys move: what older partitions held when that was noticed is read first, so that
    a key's older changes come before its newer ones in another partition.
    """

    def __init__(self, cluster: Cluster, config: KafkaConfig) -> None:
        self._cluster = cluster
        self._config = config
        self._first: dict[Place, int] = {}

    def join(self, place: KafkaOffset) -> KafkaOffset:
        """As `with_newcomers`; `place` itself while older partitions are still to be read."""
        joined = with_newcomers(self._cluster, self._config, place)
        grown = grown_topics(place, joined)
        older = [known for known in place.next if known[0] in grown]
        unknown = [known for known in older if known not in self._first]
        self._first.update(self._cluster.offsets(dict.fromkeys(unknown, LATEST)))
        if any(place.next[known] < self._first[known] for known in older):
            return place
        self._first.clear()
        return joined


def check_same_topics(topics: Mapping[str, Topic], offset: KafkaOffset) -> None:
    """Refuse to go on in topics that are not those the offset is of.

    Raises:
        NeedsUserError: When one is gone.
        HistoryLostError: When one was deleted and created anew.
    """
    for name, known in offset.topics.items():
        if name not in topics:
            raise NeedsUserError(
                f"the topic {name} is gone, or selected no more",
                code="RPL-3954",
                position=str(offset),
                hint="bring the topic or its name in the pipeline back; to go on without it, start the pipeline under another `name` with another place at the target",
            )
        if known and topics[name].id and topics[name].id != known:
            raise HistoryLostError(
                f"the topic {name} was deleted and created anew: what it held behind the offset is unknown",
                code="RPL-3955",
                position=str(offset),
                hint=_AGAIN,
            )


def check_reach(cluster: Cluster, offset: KafkaOffset) -> None:
    """Refuse to go on where records are gone that were not read yet.

    Raises:
        HistoryLostError: When retention, or a re-created topic, took them.
    """
    begins = cluster.offsets(dict.fromkeys(offset.next, EARLIEST))
    ends = cluster.offsets(dict.fromkeys(offset.next, LATEST))
    for place, there in offset.next.items():
        name = f"{place[0]}-{place[1]}"
        if there < begins[place]:
            raise HistoryLostError(
                f"{name} begins at {begins[place]} by now: {begins[place] - there} offsets from {there} on are gone"
                " (retention) and were not read",
                code="RPL-3953",
                position=str(offset),
                hint=f"{NEW_SNAPSHOT}; and raise retention.ms of the topic",
            )
        if there > ends[place]:
            raise HistoryLostError(
                f"{name} ends at {ends[place]}, before the saved offset {there}: it was created anew, or lost records",
                code="RPL-3956",
                position=str(offset),
                hint=_AGAIN,
            )


def grown(config: KafkaConfig, topics: Mapping[str, Topic], offset: KafkaOffset) -> list[Place]:
    """Partitions that topics of the offset have by now and had not.

    Raises:
        SchemaDriftError: When there are any and the settings do not say to read them.
    """
    known = {name: topic for name, topic in topics.items() if name in offset.topics}
    new = [place for place in _places(known) if place not in offset.next]
    if new and config.on_new_partitions == "fail":
        raise SchemaDriftError(
            f"the topic {new[0][0]} has more partitions than before: keys went to other partitions since, and their older"
            " and newer changes may be read out of order",
            code="RPL-3957",
            position=str(offset),
            hint="with the topic read to its end before partitions were added, set onNewPartitions to read; else let the"
            " connector snapshot its tables again and start the pipeline under another `name` with another place at the target",
        )
    return new


def _places(topics: Mapping[str, Topic]) -> list[Place]:
    return [place for topic in topics.values() for place in topic.places]
