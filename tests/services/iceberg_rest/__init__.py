"""A REST catalog of Iceberg's."""
