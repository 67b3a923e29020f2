"""Kafka Connect workers with Debezium's connectors."""
