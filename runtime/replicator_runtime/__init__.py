"""The engine that runs a pipeline: plugin host, sequencer, queue, snapshot and stream coordination."""

from __future__ import annotations

FOR_SERVICE = "REPLICATOR_FOR_SERVICE"
"""The environment variable that is set in processes which a service starts for what others asked it."""
