"""Row events: where each row and each of its values is in the events' bytes."""
