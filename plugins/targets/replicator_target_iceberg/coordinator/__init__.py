"""Files of many batches and tables, committed together in the coordinator's own time."""
