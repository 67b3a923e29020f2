"""What an attempt does before it streams: finds the tables, follows edits of the pipeline, prepares the log."""
