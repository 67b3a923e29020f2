"""What operators do to a pipeline and its tables: the control plane over HTTP."""
