"""Carries out what operators ask for, between two attempts of a run, or without one."""
