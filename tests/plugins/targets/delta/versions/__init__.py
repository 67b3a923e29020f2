"""The mode `merge-on-read` of the Delta target."""
