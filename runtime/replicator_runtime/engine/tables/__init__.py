"""What the engine keeps of each table: schemas over time, snapshot plan, replicated part and last positions."""
