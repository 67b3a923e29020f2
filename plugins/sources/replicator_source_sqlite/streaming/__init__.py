"""The event reader: from the changelog to the emitter."""
