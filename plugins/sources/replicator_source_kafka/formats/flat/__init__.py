"""Decodes records whose value is the row itself: Debezium's flattened records and plain keyed records."""
