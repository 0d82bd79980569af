"""QuantileTransformer: piecewise linear between quantiles, to a uniform or a normal distribution.

At a quantile the slopes of two pieces meet, and the steeper one counts. To a normal distribution the lowest and the
highest value are clipped to a constant, so that their derivative is zero on an interval of a ten-millionth: they are
read by the chord of their piece. Where quantiles repeat the function jumps: the column is a category of its values.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import ndtri

from dosimeter.adapters.steps.calls import transform_numbers
from dosimeter.adapters.steps.chain_rule import elementwise, moving, steeper
from dosimeter.adapters.steps.feature import Feature, Features, matrix_of
from dosimeter.adapters.steps.registry import Route, step
from dosimeter.adapters.steps.run import Run, by_its_values, require_fitted
from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import CannotMeasure
from dosimeter.core.text import safe_text

END = 1e-7
"""scikit-learn clips values this close to an end, and probabilities this close to 0 or 1."""


@step(
    "QuantileTransformer",
    route=Route.DERIVATIVE,
    remark="the slope of the piece, at a quantile the steeper one; the ends of a normal output by the chord of their "
    "piece; a column with repeated quantiles as a category of its values; the quantiles are held fixed",
)
def read_quantiles(transformer: Any, features: Features, run: Run) -> Features:
    quantiles = np.asarray(require_fitted(transformer, "quantiles_", len(features)), dtype=np.float64)
    references = np.asarray(transformer.references_, dtype=np.float64)
    normal = transformer.output_distribution == "normal"
    X = matrix_of(features)
    values = transform_numbers(transformer, X)
    outputs: list[Feature] = []
    for j, feature in enumerate(features):
        knots = quantiles[:, j]
        if run.survey and moving(feature, run) and (np.diff(knots) <= 0.0).any():
            if len(feature.sources) != 1:
                raise CannotMeasure(
                    f"QuantileTransformer jumps where quantiles of {safe_text(feature.name)} repeat, and several "
                    "columns are mixed in it: put it on the columns themselves"
                )
            (source,) = feature.sources
            by_its_values(run, source, "QuantileTransformer", "jumps where quantiles repeat")
            run.log.by_level.add(source)

        def slope(x: FloatArray = X[:, j], knots: FloatArray = knots) -> FloatArray:
            return _normal_slopes(x, knots, references) if normal else _uniform_slopes(x, knots, references)

        outputs.append(elementwise(feature, values[:, j], slope, run, "the quantiles"))
    return tuple(outputs)


def _uniform_slopes(x: FloatArray, knots: FloatArray, references: FloatArray) -> FloatArray:
    """(k,) the slope of the piece of each x; zero outside the quantiles."""
    with np.errstate(divide="ignore", invalid="ignore"):
        pieces = np.diff(references) / np.diff(knots)
    pieces = np.append(np.where(np.isfinite(pieces), pieces, 0.0), 0.0)

    def piece(at: FloatArray) -> FloatArray:
        k = np.searchsorted(knots, at, side="right") - 1
        return np.where((at >= knots[0]) & (at <= knots[-1]), pieces[np.clip(k, 0, len(pieces) - 1)], 0.0)

    return steeper(piece, x)


def _normal_slopes(x: FloatArray, knots: FloatArray, references: FloatArray) -> FloatArray:
    share = np.clip(np.interp(x, knots, references), END, 1.0 - END)
    slopes = _uniform_slopes(x, knots, references) / (np.exp(-0.5 * ndtri(share) ** 2) / math.sqrt(2.0 * math.pi))
    far = ndtri(END)
    for end, neighbour, sign in ((0, 1, 1.0), (-1, -2, -1.0)):
        at_end = np.abs(x - knots[end]) <= END
        inner = ndtri(np.clip(references[neighbour], END, 1.0 - END))
        width = abs(float(knots[neighbour] - knots[end])) or np.inf
        slopes = np.where(at_end, sign * (inner - sign * far) / width, slopes)
        beyond = x < knots[0] - END if end == 0 else x > knots[-1] + END
        slopes = np.where(beyond, 0.0, slopes)
    return np.asarray(slopes)
