"""Partitions and sort orders of Iceberg tables."""
