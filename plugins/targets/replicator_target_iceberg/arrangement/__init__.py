"""How a table's rows are distributed over files: partitions and sort order."""
