"""The engine that runs a pipeline: plugin host, sequencer, queue, snapshot and stream coordination."""

from __future__ import annotations
