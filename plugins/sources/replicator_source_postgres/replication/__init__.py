"""Slot, publication and replication stream: how the server's log is kept, selected, read and recognised."""
