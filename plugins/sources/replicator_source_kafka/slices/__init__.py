"""Reads ranges of partitions on Spark's executors (`DistributedLog`)."""
