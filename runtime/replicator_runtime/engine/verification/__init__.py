"""Compares tables at the source with their copies at the target, beside the run and without one."""
