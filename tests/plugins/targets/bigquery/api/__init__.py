"""Tests of requests that fail, are repeated or get no answer."""
