"""Reads all topics as one stream, window by window (`EventReader`)."""
