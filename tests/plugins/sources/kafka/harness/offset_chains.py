"""Chains of offsets, as a pipeline saves them one after the other."""

from __future__ import annotations

from hypothesis import strategies as st

from replicator_source_kafka import KafkaOffset

IDS = {"a": "id-a", "b": "id-b", "ü.😀": ""}
PARTITIONS = [(topic, partition) for topic in IDS for partition in range(3)]


def walk(steps: list[dict[tuple[str, int], int]]) -> list[KafkaOffset]:
    """A chain of offsets: from the beginning of every partition, with some of them greater at each step."""
    chain = [KafkaOffset(IDS, dict.fromkeys(PARTITIONS, 0))]
    for step in steps:
        here = chain[-1].next
        chain.append(KafkaOffset(IDS, {tp: there + step.get(tp, 0) for tp, there in here.items()}))
    return chain


chains = st.lists(
    st.dictionaries(st.sampled_from(PARTITIONS), st.integers(1, 1 << 40), min_size=1), min_size=1, max_size=8
).map(walk)
