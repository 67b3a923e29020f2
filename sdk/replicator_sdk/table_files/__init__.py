"""What targets of table formats need of the files of their tables, whatever the format: arrays in, arrays out."""
