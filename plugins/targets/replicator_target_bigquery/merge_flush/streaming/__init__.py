"""The ways rows are streamed: the Storage Write API and `tabledata.insertAll`."""
