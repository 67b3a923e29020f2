"""Azure Blob Storage's emulator Azurite, with planned faults."""
