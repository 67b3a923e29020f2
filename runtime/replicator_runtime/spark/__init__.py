"""Starts and stops the Spark session of a run, with its jars, its Java and its temporary folders."""
