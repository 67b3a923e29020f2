"""Mode `batch`: changes are loaded into a staging table and merged by one transaction a batch."""
