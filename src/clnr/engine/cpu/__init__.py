"""The CPU engine: compiled loops, sampled steps, and how many threads and which precision they take."""
