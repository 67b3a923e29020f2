"""The mode `scd2` of Iceberg tables."""
