"""Files and folders: written complete, locked meanwhile, and read without trust."""
