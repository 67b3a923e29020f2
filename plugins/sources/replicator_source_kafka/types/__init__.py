"""Maps types of Kafka Connect and Debezium to standard types."""
