"""Doing what `rules.replacing` decides: reading machines, writing the books, asking the clouds."""
