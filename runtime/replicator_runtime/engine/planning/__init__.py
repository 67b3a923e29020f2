"""Compares a pipeline with what its last run left: the steps that follow, and which of them need an operator's approval."""
