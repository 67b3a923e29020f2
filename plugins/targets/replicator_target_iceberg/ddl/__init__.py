"""DDL events applied to tables."""
