"""Reads Avro and Protobuf data whose schemas are in a schema registry."""
