"""What is not about graphs: files, paths, memory, versions, the console."""
