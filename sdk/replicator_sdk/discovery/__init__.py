"""What the runtime asks before it reads rows: which plugins there are, which tables, and whether they can be replicated."""
