"""The mode `merge-on-read` of Iceberg tables."""
