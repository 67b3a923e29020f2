"""The setting `branch`."""
