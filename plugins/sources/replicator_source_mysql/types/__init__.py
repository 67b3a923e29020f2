"""MySQL's types as standard types, and their values, in the binlog or in a result set, as Arrow columns."""
