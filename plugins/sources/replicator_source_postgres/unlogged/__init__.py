"""Detection of changes that the log does not carry, by comparing each table with its fingerprint at its last copy."""
