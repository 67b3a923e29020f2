"""Publishes at run time which tables a run reads and writes, as OpenLineage events."""
