"""Files and folders: written whole, read without trust, locked while in use."""
