"""The adversary's book-keeping: what was tried, how often it worked, how sure that is, and what a blind guess gets."""

from dosimeter.attacks.recall import LevelGuesses, of_level, rarest
from dosimeter.attacks.result import AttackResult, Guesses, Scores
from dosimeter.attacks.roc import Interval, TwoGaussians

__all__ = ["AttackResult", "Guesses", "Interval", "LevelGuesses", "Scores", "TwoGaussians", "of_level", "rarest"]
