"""Tables as they come: files, queries, data frames, matrices, and the DuckDB connection that reads them."""
