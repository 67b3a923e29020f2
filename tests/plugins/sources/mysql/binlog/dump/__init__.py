"""Tests of the dump: framing, compression and the stream of a server."""
