"""What comes with the replicator for monitoring systems: alerting rules of Prometheus with their runbooks, and a dashboard of Grafana."""
