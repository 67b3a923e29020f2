"""The commands of `replicator`, one module each."""
