"""Where the time of a run went, for `replicator run --timings`."""
