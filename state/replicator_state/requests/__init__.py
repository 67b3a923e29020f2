"""Requests of operators: small files beside the generations, carried out by whoever holds the lease, and their outcomes."""
