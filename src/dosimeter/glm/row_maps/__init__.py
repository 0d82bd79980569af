"""Unknowns behind steps that differ from row to row."""
