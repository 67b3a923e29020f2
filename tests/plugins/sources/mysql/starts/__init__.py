"""First starts at earlier positions of the binlog."""
