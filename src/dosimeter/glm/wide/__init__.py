"""Readings of sparse tables and of more columns than rows: exact routes, and bounds elsewhere."""
