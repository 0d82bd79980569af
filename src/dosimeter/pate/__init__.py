"""[Saeidian21]: labels voted by teachers (PATE), and what a noisy vote gives away about one of them."""

from dosimeter.pate.bounds import (
    Bound,
    bound,
    data_dependent_bound,
    data_independent_bound,
    overtaking_bound,
    uniform_bound,
)
from dosimeter.pate.leakage import leakage, win_probabilities

__all__ = [
    "Bound",
    "bound",
    "data_dependent_bound",
    "data_independent_bound",
    "leakage",
    "overtaking_bound",
    "uniform_bound",
    "win_probabilities",
]
