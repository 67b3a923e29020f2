"""Notices partitions that lost records which were read, and gave their offsets to others.

An unclean election, or a disk that lost what was not yet on it, truncates a partition. It grows again, also past a saved
offset, which then is in another history: records would be left out without an error. Every leader has an epoch of its own,
and brokers know where each epoch ends. So what was read up to an offset, under an epoch, is still there if that epoch and
those before it do not end before the offset.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from replicator_sdk.errors import HistoryLostError
from replicator_source_kafka.client.cluster import Cluster, EpochAt
from replicator_source_kafka.client.diagnosis import FROM_NEW_SNAPSHOT
from replicator_source_kafka.offset import KafkaOffset
from replicator_source_kafka.partition_range import TopicPartition


def truncated(cluster: Cluster, offset: KafkaOffset) -> dict[str, HistoryLostError]:
    """Topics that lack records before `offset` which were read, with the error; partitions of unknown epoch are not looked at."""
    return _truncated(cluster, {tp: EpochAt(offset.next[tp], epoch) for tp, epoch in offset.epochs.items()})


def _truncated(cluster: Cluster, places: Mapping[TopicPartition, EpochAt]) -> dict[str, HistoryLostError]:
    lost: dict[str, HistoryLostError] = {}
    for tp, end in cluster.epoch_ends({tp: place.epoch for tp, place in places.items()}).items():
        there = places[tp].offset
        if end < there:
            since = f" from {end} on" if end >= 0 else ""
            error = HistoryLostError(
                f"{tp[0]}-{tp[1]} lost records{since} that were read, and gives their offsets to others: a broker that lacks"
                " them was elected leader (unclean election), or lost a part of its disk",
                code="RPL-3974",
                position=f"{tp[0]}-{tp[1]}@{there}",
                hint=f"{FROM_NEW_SNAPSHOT}; and set unclean.leader.election.enable of the topic to false",
            )
            lost.setdefault(tp[0], error)
    return lost


def _refuse(lost: Mapping[str, HistoryLostError]) -> None:
    for error in lost.values():
        raise error


class LeaderEpochs:
    """The leader epoch of each partition up to where it is read. Used by one thread.

    Args:
        refuse: Raises the error that follows from topics which lost records; it returns where no table needs them.
    """

    def __init__(self, refuse: Callable[[Mapping[str, HistoryLostError]], None] = _refuse) -> None:
        self._refuse = refuse
        self._known: dict[TopicPartition, int] = {}

    def begin(self, offset: KafkaOffset) -> None:
        """Reading begins at `offset`."""
        self._known = dict(offset.epochs)

    def follow(self, cluster: Cluster, found: Mapping[TopicPartition, EpochAt]) -> bool:
        """Learn the epochs of partitions at the offsets where they are read next. Returns whether a known one rose.

        An epoch may be that of a later record: what was read is checked against the log under that epoch.

        Raises:
            HistoryLostError: When a partition has a new leader, and lost records before these offsets.
        """
        risen = {
            tp: EpochAt(place.offset, self._known[tp])
            for tp, place in found.items()
            if self._known.get(tp, place.epoch) < place.epoch
        }
        self._refuse(_truncated(cluster, risen))
        self._known |= {tp: place.epoch for tp, place in found.items() if place.epoch > self._known.get(tp, -1)}
        return bool(risen)

    def of(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The known epochs of some partitions."""
        return {tp: self._known[tp] for tp in partitions if tp in self._known}
