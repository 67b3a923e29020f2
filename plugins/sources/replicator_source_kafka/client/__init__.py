"""Talks to the brokers: connections, metadata, requests for offsets and records, and errors in the SDK's terms."""
