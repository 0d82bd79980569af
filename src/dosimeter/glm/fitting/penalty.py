"""The penalty λ of [Hannun21] eq. 13: a given one, or that of scikit-learn's default model for the loss.

Eq. 13 has Σ l + (nλ/2)‖w‖². scikit-learn's defaults, in that form:

| model                     | its objective                 | nλ    | λ   |
| Ridge(alpha=1.0)          | ‖y - m‖² + ‖w‖²               | 1     | 1/n |
| LogisticRegression(C=1.0) | Σ l + ½‖w‖², softmax alike    | 1     | 1/n |
| PoissonRegressor(alpha=1) | (1/n) Σ l + ½‖w‖²             | n     | 1   |
| GammaRegressor, TweedieRegressor(alpha=1) | the same      | n     | 1   |
| LinearSVC, LinearSVR(C=1) | Σ l + ½‖w‖²                   | 1     | 1/n |

(l is half the square of y - m, so Ridge's objective is twice ours. The last two also penalise the intercept, which
`glm.fit` does with penalised_intercept=True.) A user's own model most often has these, and a
stronger penalty would show a lower dose than that model has.
"""

from __future__ import annotations

from dataclasses import dataclass

from dosimeter.core.errors import Refusal
from dosimeter.core.face import option
from dosimeter.glm.fitting.newton import Loss

STATED = "stated"


@dataclass(frozen=True)
class Penalty:
    """λ of eq. 13 of [Hannun21] and where it comes from.

    Examples
    --------
    >>> from dosimeter.glm.losses.loss import Logistic, Poisson, Squared
    >>> penalty(Squared(), 50).l2, penalty(Poisson(), 50).l2, penalty(Squared(), 50, 0.3).source
    (0.02, 1.0, 'stated')
    >>> penalty(Logistic(), 50).source
    "scikit-learn's default: LogisticRegression(C=1.0), l2 = 1/n"
    """

    l2: float
    source: str
    """'stated', or the default model with λ as a formula: it does not hold the number of rows."""

    @property
    def sentence(self) -> str:
        """One sentence for the reader of the figures. Internal: λ = 1/n reveals the number of rows."""
        if self.source == STATED:
            return f"penalty l2 = {self.l2:g}, as stated"
        value = "" if self.l2 == 1.0 else f" = {self.l2:.3g}"
        return (
            f"penalty of {self.source}{value}; the number of rows n is assumed public: it is data if a row may be "
            "added or removed"
        )


def penalty(loss: Loss, n: int, l2: float | None = None) -> Penalty:
    """The given penalty, or that of scikit-learn's default model for this loss.

    Parameters
    ----------
    loss : Loss
        The loss.
    n : int
        Number of rows.
    l2 : float, optional
        λ; default: scikit-learn's.

    Returns
    -------
    Penalty

    Raises
    ------
    Refusal
        If the loss has no default.

    Examples
    --------
    >>> from dosimeter.glm.losses.loss import Squared
    >>> penalty(Squared(), 50).l2
    0.02
    """
    if l2 is not None:
        return Penalty(l2, STATED)
    if not loss.default_model:
        raise Refusal(f"the loss {loss.name} has no default penalty: pass {option('l2')}")
    source = f"scikit-learn's default: {loss.default_model}, "
    if loss.penalised_mean:
        return Penalty(1.0, source + "l2 = 1 for each of n rows")
    return Penalty(1.0 / n, source + "l2 = 1/n")
