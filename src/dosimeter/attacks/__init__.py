"""Results of attacks: how often a guess was right, its confidence interval, and the control without the release."""

from dosimeter.attacks.recall import LevelGuesses, level_guesses, rarest_level_guesses
from dosimeter.attacks.result import AttackResult, Guesses, Scores
from dosimeter.attacks.roc import Interval, TwoGaussians

__all__ = [
    "AttackResult",
    "Guesses",
    "Interval",
    "LevelGuesses",
    "Scores",
    "TwoGaussians",
    "level_guesses",
    "rarest_level_guesses",
]
