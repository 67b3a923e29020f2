"""IntermediateTable tables: their names, columns and rows."""
