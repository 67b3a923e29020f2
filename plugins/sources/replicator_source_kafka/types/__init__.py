"""From the types of Kafka Connect and Debezium to the standard ones, and from their values to Arrow."""
