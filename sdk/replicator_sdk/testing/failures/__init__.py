"""What a failing claim says: which claim, at which step, what was compared, and the smallest history that fails."""
