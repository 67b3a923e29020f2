"""Snapshots: tables are put together of a copy and the changes after it, at the end of the archive."""
