"""Rows to BigQuery by Parquet files in a bucket and load jobs, and snapshots by both."""
