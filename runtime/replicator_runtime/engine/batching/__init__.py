"""Numbers the events of a reader and gathers them by table into batches."""
