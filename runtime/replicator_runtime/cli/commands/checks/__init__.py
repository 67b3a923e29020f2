"""Commands that only look: source and target are compared."""
