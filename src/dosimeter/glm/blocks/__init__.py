"""Readings and scores of a table that is read in blocks."""
