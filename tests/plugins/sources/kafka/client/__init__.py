"""Tests of connections: TLS, logins, several brokers."""
