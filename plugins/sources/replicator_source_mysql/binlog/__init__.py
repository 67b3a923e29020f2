"""The binlog: events of a replication stream turned into columns, never into row objects."""
