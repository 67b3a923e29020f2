"""Test helpers: records as connectors write them, and a source or a pipeline that reads them."""
