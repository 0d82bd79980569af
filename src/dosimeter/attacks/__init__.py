"""The adversary's book-keeping: what was tried, how often it worked, how sure that is, and what a blind guess gets."""

from dosimeter.attacks.result import AttackResult, Guesses, Scores
from dosimeter.attacks.roc import Interval, TwoGaussians

__all__ = ["AttackResult", "Guesses", "Interval", "Scores", "TwoGaussians"]
