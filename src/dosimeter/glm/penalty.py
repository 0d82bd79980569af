"""The penalty λ of [Hannun21] eq. 13: a stated one, or that of scikit-learn's default model for the loss.

Eq. 13 has Σ l + (nλ/2)‖w‖². scikit-learn's defaults, in that form:

| model                     | its objective                 | nλ    | λ   |
| Ridge(alpha=1.0)          | ‖y - m‖² + ‖w‖²               | 1     | 1/n |
| LogisticRegression(C=1.0) | Σ l + ½‖w‖², softmax alike    | 1     | 1/n |
| PoissonRegressor(alpha=1) | (1/n) Σ l + ½‖w‖²             | n     | 1   |

(l is half the square of y - m, so Ridge's objective is twice ours.) Somebody's own model most often has these, and a
stronger penalty would show a lower dose than that model has.
"""

from __future__ import annotations

from dataclasses import dataclass

from dosimeter.core.errors import Refusal
from dosimeter.glm.loss import Logistic, Poisson, Squared
from dosimeter.glm.newton import Loss
from dosimeter.glm.softmax import Softmax

STATED = "stated"
_BY_SUM = {Squared: "Ridge(alpha=1.0)", Logistic: "LogisticRegression(C=1.0)", Softmax: "LogisticRegression(C=1.0)"}
_BY_MEAN = {Poisson: "PoissonRegressor(alpha=1.0)"}


@dataclass(frozen=True)
class Penalty:
    """λ of eq. 13 and where it comes from.

    >>> penalty(Squared(), 50).l2, penalty(Poisson(), 50).l2, penalty(Squared(), 50, 0.3).source
    (0.02, 1.0, 'stated')
    >>> penalty(Logistic(), 50).source
    "scikit-learn's default: LogisticRegression(C=1.0), l2 = 1/n"
    """

    l2: float
    source: str
    """'stated', or the default model with λ as a formula: it holds no number of rows."""

    @property
    def words(self) -> str:
        """One sentence for the reader of the figures. Internal: λ = 1/n tells the number of rows."""
        if self.source == STATED:
            return f"penalty l2 = {self.l2:g}, as stated"
        value = "" if self.l2 == 1.0 else f" = {self.l2:.3g}"
        return (
            f"penalty of {self.source}{value}; the number of rows n is taken as public: it is data where a row may be "
            "added or removed"
        )


def penalty(loss: Loss, n: int, l2: float | None = None) -> Penalty:
    """l2 where it is stated, else the penalty of scikit-learn's default model for this loss on n rows."""
    if l2 is not None:
        return Penalty(l2, STATED)
    kind = type(loss)
    if kind in _BY_SUM:
        return Penalty(1.0 / n, f"scikit-learn's default: {_BY_SUM[kind]}, l2 = 1/n")
    if kind in _BY_MEAN:
        return Penalty(1.0, f"scikit-learn's default: {_BY_MEAN[kind]}, l2 = 1 for each of n rows")
    raise Refusal(f"loss {loss!r} has no default penalty here: state l2")
