"""Work done in parallel outside the driver: logs of many partitions, their slices, and tasks on threads or executors."""
