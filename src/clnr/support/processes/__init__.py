"""Several processes that share work: started, restarted, and what they do together."""
