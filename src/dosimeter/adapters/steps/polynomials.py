"""PolynomialFeatures: products of powers of the columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from dosimeter.adapters.steps.chain_rule import mixed
from dosimeter.adapters.steps.feature import Features, matrix_of
from dosimeter.adapters.steps.registry import Route, step
from dosimeter.adapters.steps.run import Run, require_fitted
from dosimeter.core.arrays import FloatArray


@step("PolynomialFeatures", route=Route.DERIVATIVE, remark="every degree, interaction_only and include_bias")
def read_polynomials(polynomials: Any, features: Features, run: Run) -> Features:
    require_fitted(polynomials, "n_output_features_", len(features))
    powers = np.asarray(polynomials.powers_, dtype=np.intp)
    for feature in features:
        feature.refuse_gaps()
    X = matrix_of(features)
    values = np.empty((len(X), len(powers)))
    for o, exponents in enumerate(powers):
        values[:, o] = _monomial(X, exponents)

    def derivative(inputs: list[int]) -> FloatArray:
        D = np.zeros((len(X), len(powers), len(inputs)))
        for k, j in enumerate(inputs):
            for o in np.flatnonzero(powers[:, j]):
                lowered = powers[o].copy()
                lowered[j] -= 1
                D[:, o, k] = powers[o, j] * _monomial(X, lowered)
        return D

    names = [_name(exponents, features) for exponents in powers]
    return mixed(features, values, names, derivative, run, touches=powers > 0)


def _monomial(X: FloatArray, exponents: Any) -> FloatArray:
    """(k,) Π x_j^p_j."""
    out = np.ones(len(X))
    for j in np.flatnonzero(exponents):
        out *= X[:, j] ** int(exponents[j])
    return out


def _name(exponents: Any, features: Features) -> str:
    factors = [
        features[j].name if exponents[j] == 1 else f"{features[j].name}^{exponents[j]}"
        for j in np.flatnonzero(exponents)
    ]
    return " ".join(factors) or "1"
