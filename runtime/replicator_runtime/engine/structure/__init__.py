"""What follows at the target from changes of structure at the source."""
