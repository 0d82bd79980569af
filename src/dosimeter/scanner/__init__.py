"""Scanning a model file for training rows, single people's values, statistics and lists, without unpickling."""

from dosimeter.scanner.finding import Finding, Match
from dosimeter.scanner.scan import Scan, scan

__all__ = ["Finding", "Match", "Scan", "scan"]
