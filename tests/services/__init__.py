"""Real servers for the tests, started privately on loopback and stopped by process id."""
