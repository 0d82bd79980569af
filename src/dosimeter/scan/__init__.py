"""Looking into a model file: training rows, single people's values, statistics and lists, without unpickling."""

from dosimeter.scan.finding import Finding, Match
from dosimeter.scan.scan import Scan, scan

__all__ = ["Finding", "Match", "Scan", "scan"]
