"""Sources and targets in memory or in a folder, for tests of the runtime and of the kit itself."""
