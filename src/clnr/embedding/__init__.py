"""A user's own graph: settings, training, the folder that it leaves, its neighbours and its map."""
