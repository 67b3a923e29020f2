"""Compares tables with their copies from time to time, beside the streams of a run."""
