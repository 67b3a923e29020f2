"""Columns and types as Iceberg and as the files have them."""
