"""Copies of vega 6.4.0, vega-lite 6.4.3, vega-embed 7.3.0 (BSD-3-Clause, see LICENSE): pages work offline."""
