"""Reports problems of brokers, topics and records before a pipeline is started."""
