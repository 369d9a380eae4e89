"""Finding nodes: by id, by name, by similar vectors."""
