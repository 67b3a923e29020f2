"""What is read from a replicator's state alone, in JSON values: the command line prints it, the service answers with it."""
