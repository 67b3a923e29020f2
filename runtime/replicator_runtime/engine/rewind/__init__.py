"""Goes back to an earlier offset: the target's tables and the saved offset together."""
