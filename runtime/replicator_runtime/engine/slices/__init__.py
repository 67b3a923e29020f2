"""Streams a log of many partitions that Spark's executors read."""
