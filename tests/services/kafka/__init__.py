"""Kafka brokers and the client that asks them."""
