"""The form of a change archive: what its writer, in the runtime, and its readers have to agree on.

`names` has where manifests are, `rows` the columns of the Parquet files, `ddl_json` changes of structure as JSON.
"""
