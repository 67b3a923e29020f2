"""Schema history: definitions of tables by place in the log, kept up by the log's own statements."""
