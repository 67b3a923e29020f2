"""The claims about a target, by subject; `target_suite` puts them together."""
