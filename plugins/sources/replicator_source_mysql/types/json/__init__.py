"""JSON documents in MySQL's binary form, as the server's own text."""
