"""Tables opened as relations of DuckDB: files, data frames and queries."""
