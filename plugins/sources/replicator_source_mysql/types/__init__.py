"""From MySQL's types to the standard ones, and from its values, in the binlog or in a result set, to Arrow."""
