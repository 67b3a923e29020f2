"""Writes every change that the target gets into the change archive as well."""
