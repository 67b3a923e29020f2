"""Requests to Google: clients, jobs that run once, retries, and errors as the SDK's classes."""
