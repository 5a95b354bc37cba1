"""Doing what was decided: each step is one kind of write, safe to repeat."""
