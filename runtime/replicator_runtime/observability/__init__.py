"""What a run reports about itself: logs without secrets, metrics and lineage."""
