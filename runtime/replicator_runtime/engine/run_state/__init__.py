"""What all parts of a run share: its saved offset, progress, status, retry budget and error policy."""
