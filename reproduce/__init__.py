"""The paper, made from its record of runs, beside the package that never imports it."""
