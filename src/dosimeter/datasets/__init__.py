"""Embedded demonstration data, and loaders for the papers' data from a folder."""
