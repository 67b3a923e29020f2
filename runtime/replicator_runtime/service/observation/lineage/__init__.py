"""Which column of the target comes from which column of the source."""
