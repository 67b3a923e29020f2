"""Tests of pipelines from Kafka to Delta Lake."""
