"""First starts at earlier positions of the binlog: where they are, and what tables looked like there."""
