"""Kernel approximations: smooth maps of all columns of a row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dosimeter.adapters.steps.calls import transform_numbers
from dosimeter.adapters.steps.chain_rule import elementwise, mixed
from dosimeter.adapters.steps.feature import Feature, Features, matrix_of
from dosimeter.adapters.steps.registry import Route, step
from dosimeter.adapters.steps.run import Run, require_fitted
from dosimeter.core.arrays import FloatArray

CHI2_INTERVALS = {1: 0.8, 2: 0.5, 3: 0.4}
"""sample_steps -> the sampling interval that AdditiveChi2Sampler takes by default."""


def _inputs(features: Features) -> FloatArray:
    for feature in features:
        feature.refuse_gaps()
    return matrix_of(features)


@step("RBFSampler", route=Route.DERIVATIVE, remark="√(2/D) cos(xW + b): W and b are random, nothing is held fixed")
def read_rbf_sampler(sampler: Any, features: Features, run: Run) -> Features:
    W = np.asarray(require_fitted(sampler, "random_weights_", len(features)), dtype=np.float64)
    X = _inputs(features)

    def derivative(inputs: list[int]) -> FloatArray:
        waves = -np.sqrt(2.0 / W.shape[1]) * np.sin(X @ W + sampler.random_offset_)
        return np.asarray(waves[:, :, None] * W.T[:, inputs])

    names = [f"rbf {k}" for k in range(W.shape[1])]
    # gamma="scale" is taken from the variance of the data.
    learned = ("the variance that sets gamma",) if sampler.gamma == "scale" else ()
    return mixed(features, transform_numbers(sampler, X), names, derivative, run, learned)


@step("SkewedChi2Sampler", route=Route.DERIVATIVE, remark="√(2/D) cos(log(x + c)W + b): nothing is held fixed")
def read_skewed_chi2(sampler: Any, features: Features, run: Run) -> Features:
    W = np.asarray(require_fitted(sampler, "random_weights_", len(features)), dtype=np.float64)
    X = _inputs(features)

    def derivative(inputs: list[int]) -> FloatArray:
        shifted = X + sampler.skewedness
        waves = -np.sqrt(2.0 / W.shape[1]) * np.sin(np.log(shifted) @ W + sampler.random_offset_)
        return np.asarray(waves[:, :, None] * W.T[:, inputs] / shifted[:, None, inputs])

    names = [f"chi2 {k}" for k in range(W.shape[1])]
    return mixed(features, transform_numbers(sampler, X), names, derivative, run)


@step(
    "AdditiveChi2Sampler", route=Route.DERIVATIVE, remark="√x times a wave in log x, for x > 0: nothing is held fixed"
)
def read_additive_chi2(sampler: Any, features: Features, run: Run) -> Features:
    X = _inputs(features)
    values = transform_numbers(sampler, X)
    interval = sampler.sample_interval or CHI2_INTERVALS[sampler.sample_steps]
    outputs: list[Feature] = []
    for block in range(2 * sampler.sample_steps - 1):
        for j, feature in enumerate(features):

            def slope(x: FloatArray = X[:, j], block: int = block) -> FloatArray:
                return _chi2_slopes(x, (block + 1) // 2, block % 2 == 1, interval)

            outputs.append(elementwise(feature, values[:, block * len(features) + j], slope, run))
    return tuple(outputs)


def _chi2_slopes(x: FloatArray, j: int, cosine: bool, interval: float) -> FloatArray:
    """(k,) the derivative of √(c x) w(jL log x), w a cosine or a sine; c = L for j = 0, else 2L / cosh(πjL)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        if j == 0:
            return np.asarray(0.5 * np.sqrt(interval / x))
        size = np.sqrt(2.0 * interval / np.cosh(np.pi * j * interval) / x)
        angle = j * interval * np.log(x)
        wave, turned = (np.cos(angle), -np.sin(angle)) if cosine else (np.sin(angle), np.cos(angle))
        return np.asarray(size * (0.5 * wave + j * interval * turned))


@step(
    "Nystroem",
    route=Route.DERIVATIVE,
    remark="kernels rbf, linear, poly and sigmoid, others by differences; its landmarks are rows of the data, held "
    "fixed",
)
def read_nystroem(nystroem: Any, features: Features, run: Run) -> Features:
    C = np.asarray(require_fitted(nystroem, "components_", len(features)), dtype=np.float64)
    kernel = _KERNELS.get(nystroem.kernel) if isinstance(nystroem.kernel, str) else None
    if kernel is None or nystroem.kernel_params:
        from dosimeter.adapters.steps.unknown_steps import read_unknown  # it needs the registry

        return read_unknown(nystroem, features, run)
    X, N = _inputs(features), np.asarray(nystroem.normalization_, dtype=np.float64)

    def derivative(inputs: list[int]) -> FloatArray:
        return np.asarray(np.einsum("ol,nlj->noj", N, kernel(nystroem, X, C, inputs), optimize=True))

    names = [f"nystroem {k}" for k in range(len(N))]
    return mixed(features, transform_numbers(nystroem, X), names, derivative, run, ("the landmarks",))


def _gamma(nystroem: Any, C: FloatArray) -> float:
    return 1.0 / C.shape[1] if nystroem.gamma is None else float(nystroem.gamma)


def _rbf(nystroem: Any, X: FloatArray, C: FloatArray, inputs: list[int]) -> FloatArray:
    gamma = _gamma(nystroem, C)
    squares = np.sum(X**2, axis=1)[:, None] + np.sum(C**2, axis=1) - 2.0 * (X @ C.T)
    K = np.exp(-gamma * np.maximum(squares, 0.0))
    return np.asarray(-2.0 * gamma * K[:, :, None] * (X[:, None, inputs] - C[:, inputs]))


def _linear(nystroem: Any, X: FloatArray, C: FloatArray, inputs: list[int]) -> FloatArray:
    return np.broadcast_to(C[:, inputs], (len(X), len(C), len(inputs)))


def _poly(nystroem: Any, X: FloatArray, C: FloatArray, inputs: list[int]) -> FloatArray:
    gamma, degree = _gamma(nystroem, C), 3.0 if nystroem.degree is None else float(nystroem.degree)
    inner = gamma * (X @ C.T) + (1.0 if nystroem.coef0 is None else float(nystroem.coef0))
    return (degree * gamma * inner ** (degree - 1.0))[:, :, None] * C[:, inputs]


def _sigmoid(nystroem: Any, X: FloatArray, C: FloatArray, inputs: list[int]) -> FloatArray:
    gamma = _gamma(nystroem, C)
    inner = gamma * (X @ C.T) + (1.0 if nystroem.coef0 is None else float(nystroem.coef0))
    return (gamma / np.cosh(inner) ** 2)[:, :, None] * C[:, inputs]


_KERNELS: dict[str, Callable[[Any, FloatArray, FloatArray, list[int]], FloatArray]] = {
    "rbf": _rbf,
    "linear": _linear,
    "poly": _poly,
    "polynomial": _poly,
    "sigmoid": _sigmoid,
}
