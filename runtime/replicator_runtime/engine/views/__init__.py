"""What is shown of parts of a run at one moment."""
