"""A pipeline from a log in files into Delta, in a process of its own: `slices_entry.py PIPELINE`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from replicator_sdk.testing.in_memory.partitioned import PartitionedSource
from replicator_target_delta import DeltaLakeTarget
from tests.runtime.engine.partitioned_shop import Host, run_pipeline

if __name__ == "__main__":
    run_pipeline(json.loads(Path(sys.argv[1]).read_text()), Host(DeltaLakeTarget, PartitionedSource))
