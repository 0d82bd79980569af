"""A linear model as bare coefficients, without an estimator."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

from dosimeter.core.errors import Refusal
from dosimeter.core.text import safe_text


@dataclass(frozen=True)
class Coefficients:
    """One weight per column; `intercept` is None for a model without one, `l2` the strength λ of its ridge penalty.

    >>> Coefficients("logistic", l2=1e-3, intercept=-1.5, coef={"age": 0.02}).coef["age"]
    0.02
    """

    loss: str
    l2: float
    intercept: float | None
    coef: dict[str, float]

    def __post_init__(self) -> None:
        from dosimeter.glm.losses.loss import LOSSES  # late: it imports scipy

        if self.loss not in LOSSES:
            raise Refusal(f"loss {safe_text(self.loss)!r} is not known: use one of {', '.join(LOSSES)}")
        if not (isfinite(self.l2) and self.l2 >= 0):
            raise Refusal(f"l2 is {self.l2}: give a finite number that is not negative")
        if self.intercept is not None and not isfinite(self.intercept):
            raise Refusal(f"intercept is {self.intercept}: give a finite number, or null for none")
        if not self.coef:
            raise Refusal("coef is empty: give one number per column")
        for name, value in self.coef.items():
            if not isfinite(value):
                raise Refusal(f"coef of {safe_text(name)} is {value}: give a finite number")
        object.__setattr__(self, "coef", dict(self.coef))
