"""The paper, regenerated: its tables and figures from runs, and its claims put to the test."""
