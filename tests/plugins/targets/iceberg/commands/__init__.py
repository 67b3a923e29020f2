"""What commands ask of the target: rows to compare, to repair and to go back to."""
