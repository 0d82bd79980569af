"""A fit and its figures over blocks are those of the table in memory."""

from __future__ import annotations

import pickle
from functools import partial
from typing import Any

import numpy as np
import pytest

from dosimeter import glm
from dosimeter.core.engine import LocalEngine, split
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.noise import Gaussian, Gumbel, Laplace, no_noise
from dosimeter.glm.blocks.block_leakage import column_norms, column_terms, measure_block
from dosimeter.glm.fitting.block_fit import fit_blocks, newton_terms

CLOSE = {"rtol": 1e-9, "atol": 1e-12}


def table(loss: Any, n: int = 3000, d: int = 5, seed: int = 0) -> tuple[Any, Any]:
    """Standardised columns of unequal spread, and targets of the loss."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) @ (np.eye(d) + 0.4 * rng.normal(size=(d, d)))
    X[:7] *= 6.0
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    m = X @ rng.normal(size=d) * 0.4 + 0.3
    if isinstance(loss, glm.Logistic):
        return X, (rng.random(n) < 1 / (1 + np.exp(-m))).astype(float)
    if isinstance(loss, glm.Poisson):
        return X, rng.poisson(np.exp(np.minimum(m, 3.0))).astype(float)
    return X, m + rng.normal(size=n)


def blocks_of(X: Any, y: Any, rows: int = 700) -> list[Any]:
    return list(split((X, y, np.ones(len(y))), rows))


LOSSES = [glm.Squared(), glm.Logistic(), glm.Poisson()]


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
@pytest.mark.parametrize("start", ["sample", "table"])
@pytest.mark.parametrize("l2", [0.0, 0.01])
def test_blocks_have_the_minimiser_of_the_whole_table(loss: Any, start: str, l2: float) -> None:
    X, y = table(loss)
    some = (X[::10], y[::10]) if start == "sample" else None
    fitted = fit_blocks(blocks_of(X, y), loss, n=len(y), d=5, l2=l2, engine=LocalEngine(), sample=some)
    whole = glm.fit(X, y, loss, l2, intercept=True)
    np.testing.assert_allclose(fitted.w, whole.w, **CLOSE)
    assert fitted.decrement < 1e-10
    assert fitted.iterations <= 12
    inverse = whole.factor.matrix @ whole.factor.matrix.T
    np.testing.assert_allclose(fitted.factor.matrix @ fitted.factor.matrix.T, inverse, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
@pytest.mark.parametrize("noise", [Gaussian(0.1), Laplace(0.2), Gumbel(0.3), no_noise], ids=str)
@pytest.mark.parametrize("scaled", [True, False])
def test_every_figure_of_a_row_is_that_of_the_whole_table(loss: Any, noise: Any, scaled: bool) -> None:
    X, y = table(loss)
    mask = np.array([True, True, False, True, True]) if scaled else None
    options = {"input_map": np.diag([1.0, 2.0, 0.5, 3.0, 1.0]), "target_unit": 1.5, "scaled": mask}
    whole = glm.measure(glm.fit(X, y, loss, 0.01, intercept=True), X, y, noise, **options)
    fitted = fit_blocks(blocks_of(X, y), loss, n=len(y), d=5, l2=0.01, engine=LocalEngine())
    leaks = [measure_block(fitted, b, noise, **options)[0] for b in blocks_of(X, y)]
    for name in ("unscaled_examples", "labels", "cells"):
        np.testing.assert_allclose(np.concatenate([getattr(k, name) for k in leaks]), getattr(whole, name), **CLOSE)
    pair = np.array([1, 3])
    np.testing.assert_allclose(np.concatenate([k.attribute(pair) for k in leaks]), whole.attribute(pair), **CLOSE)
    terms = LocalEngine().sum_over([k.jacobian for k in leaks], column_terms)
    norms, lost = column_norms(leaks[0].jacobian, terms)
    assert not lost.any()
    np.testing.assert_allclose(norms, whole.jacobian.column_norms(), **CLOSE)


def test_a_fit_to_rounding_is_refined_as_in_memory() -> None:
    X, _ = table(glm.Squared())
    w, rng = np.arange(1.0, 6.0), np.random.default_rng(5)
    y = 1e6 * (X @ w) + 1e-3 * rng.normal(size=len(X))
    fitted = fit_blocks(blocks_of(X, y), glm.Squared(), n=len(y), d=5, l2=0.0, engine=LocalEngine())
    assert fitted.low is not None
    whole = glm.measure(glm.fit(X, y, glm.Squared(), 0.0, intercept=True), X, y, Gaussian(1.0))
    leaks = [measure_block(fitted, b, Gaussian(1.0))[0] for b in blocks_of(X, y)]
    np.testing.assert_allclose(np.concatenate([k.cells for k in leaks]), whole.cells, rtol=1e-9, atol=1e-15)


def test_nearly_dependent_columns_keep_their_digits() -> None:
    X, y = table(glm.Logistic())
    X = np.column_stack([X, X[:, 0] + 1e-6 * np.random.default_rng(1).normal(size=len(X))])
    whole = glm.fit(X, y, glm.Logistic(), 0.0, intercept=True)
    assert not whole.factor.easy
    fitted = fit_blocks(blocks_of(X, y), glm.Logistic(), n=len(y), d=6, l2=0.0, engine=LocalEngine(), sample=(X, y))
    np.testing.assert_allclose(fitted.condition, whole.condition, rtol=1e-6)
    leaks = [measure_block(fitted, b, Gaussian(1.0))[0] for b in blocks_of(X, y)]
    expected = glm.measure(whole, X, y, Gaussian(1.0)).examples
    np.testing.assert_allclose(np.concatenate([k.examples for k in leaks]), expected, rtol=1e-8)


def test_dependent_columns_are_refused() -> None:
    X, y = table(glm.Logistic())
    X = np.column_stack([X, X[:, 0]])
    with pytest.raises(Refusal, match="linearly dependent"):
        fit_blocks(blocks_of(X, y), glm.Logistic(), n=len(y), d=6, l2=0.0, engine=LocalEngine())


def test_separated_classes_are_refused() -> None:
    X, _ = table(glm.Logistic())
    y = (X[:, 0] > 0).astype(float)
    with pytest.raises(Refusal, match="l2"):
        fit_blocks(blocks_of(X, y), glm.Logistic(), n=len(y), d=5, l2=0.0, engine=LocalEngine())


def test_a_misleading_sample_changes_nothing() -> None:
    X, y = table(glm.Poisson())
    wrong = (np.random.default_rng(2).normal(size=(200, 5)) * [1e-3, 1, 1, 1, 1e3], np.full(200, 40.0))
    fitted = fit_blocks(blocks_of(X, y), glm.Poisson(), n=len(y), d=5, l2=0.0, engine=LocalEngine(), sample=wrong)
    np.testing.assert_allclose(fitted.w, glm.fit(X, y, glm.Poisson(), 0.0, intercept=True).w, **CLOSE)


def test_losses_with_kinks_are_refused() -> None:
    X, y = table(glm.Squared())
    with pytest.raises(CannotMeasure, match="in memory only"):
        fit_blocks(blocks_of(X, y), glm.Huber(), n=len(y), d=5, l2=0.1, engine=LocalEngine())


def test_targets_that_the_loss_does_not_have_are_refused() -> None:
    X, y = table(glm.Poisson())
    y[1234] = -1.0
    with pytest.raises(Refusal):
        fit_blocks(blocks_of(X, y), glm.Poisson(), n=len(y), d=5, l2=0.1, engine=LocalEngine())


def test_the_functions_of_a_pass_can_be_pickled() -> None:
    X, y = table(glm.Logistic())
    fitted = fit_blocks(blocks_of(X, y), glm.Logistic(), n=len(y), d=5, l2=0.1, engine=LocalEngine())
    f = partial(newton_terms, factor=fitted.coordinates, v=fitted.v, loss=fitted.loss)
    block = blocks_of(X, y)[0]
    again = pickle.loads(pickle.dumps(f))(block)  # noqa: S301
    assert all(np.array_equal(a, b) for a, b in zip(again[:3], f(block)[:3], strict=True))
    assert isinstance(pickle.loads(pickle.dumps(fitted)).rows(block), glm.Fit)  # noqa: S301
