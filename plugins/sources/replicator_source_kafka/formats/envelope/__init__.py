"""Decodes Debezium's change envelopes: JSON, Avro and Protobuf."""
