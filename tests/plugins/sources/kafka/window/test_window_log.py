"""The saved ends of windows."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from replicator_sdk.testing.contexts import TestSourceContext
from replicator_source_kafka import KafkaOffset
from replicator_source_kafka.window.window_log import WindowLog
from tests.plugins.sources.kafka.harness.offset_chains import chains, walk


@given(chains, st.integers(0, 7))
def test_a_replay_has_the_same_windows(chain: list[KafkaOffset], back: int) -> None:
    context = TestSourceContext()
    windows = WindowLog(context)
    windows.resume(chain[0])
    for end in chain[1:]:
        assert windows.next_end(end) is None
        windows.add(end)
    start = min(back, len(chain) - 1)
    again = WindowLog(context)
    again.resume(chain[start])
    walked = [chain[start]]
    while (end_again := again.next_end(walked[-1])) is not None:
        walked.append(end_again)
    assert walked == chain[start:]


def test_durable_windows_are_dropped() -> None:
    chain = walk([{("a", 0): 1}] * 5)
    context = TestSourceContext()
    windows = WindowLog(context)
    for end in chain[1:5]:
        windows.add(end)
    context.committed = chain[3]
    windows.add(chain[5])
    again = WindowLog(context)
    again.resume(chain[0])
    assert again.next_end(chain[0]) == chain[4]


@given(chains, st.lists(st.integers(1, 9), min_size=8, max_size=8))
def test_a_replay_has_the_widths_that_windows_were_planned_with(chain: list[KafkaOffset], widths: list[int]) -> None:
    context = TestSourceContext()
    windows = WindowLog(context)
    planned = dict(zip(chain[1:], widths, strict=False))
    for end, width in planned.items():
        windows.add(end, width)
    again = WindowLog(context)
    again.resume(chain[0])
    for written in (windows, again):
        assert {end: written.width(end) for end in planned} == planned
