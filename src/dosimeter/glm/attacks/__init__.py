"""Attribute inversion and membership inference against released weights."""
