"""Apicurio's schema registry."""
