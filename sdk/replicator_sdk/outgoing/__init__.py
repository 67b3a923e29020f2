"""What a connection may lead to, in a process that `replicator serve` starts."""
