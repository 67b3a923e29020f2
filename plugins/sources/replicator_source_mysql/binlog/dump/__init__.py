"""The dump of a server's binlog: handshake, framing, compressed events, and the identity of a log file."""
