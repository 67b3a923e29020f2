"""What several tests use: a project on the emulators, changes, runs in child processes, a parser of statements."""
