"""The runs behind the paper's tables and figures: planned, made, found again."""
