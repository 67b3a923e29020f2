"""The remote form of commands: a service does what they ask for, and they print it as they print their own work."""
