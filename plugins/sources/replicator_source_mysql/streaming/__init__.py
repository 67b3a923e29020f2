"""The event reader: from the binlog's events to the emitter, in whole transactions."""
