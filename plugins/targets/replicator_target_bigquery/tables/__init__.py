"""Target tables: looked up, created, owned by one replicator and written under its fence."""
