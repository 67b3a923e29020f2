"""Where the time of a run goes: named steps, recorded when `replicator run --timings` asks for it (decision 84)."""

from replicator_sdk.timeline.steps import (
    Step,
    Timeline,
    end_recording,
    record,
    recording,
    step,
    timed,
    waiting,
)

__all__ = ["Step", "Timeline", "end_recording", "record", "recording", "step", "timed", "waiting"]
