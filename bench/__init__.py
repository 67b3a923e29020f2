"""The project's measurements: us and named peers on the same data, machine and run (`make bench`)."""
