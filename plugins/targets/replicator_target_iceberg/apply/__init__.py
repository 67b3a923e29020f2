"""How a batch of changes reaches a table, in one commit."""
