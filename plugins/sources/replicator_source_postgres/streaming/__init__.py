"""The event reader: from the replication stream, and from the catalogue where the log is silent, to the emitter."""
