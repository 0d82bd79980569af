"""Tables on which a fit can stop too soon or cancel, each with an independent answer."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest

import dosimeter as dm
from dosimeter import glm

ONE = dm.Gaussian(1.0)


def exact_weights(X, y, kind, l2=0.0, weight=None, start=None):
    """Minimiser of eq. 13 in sixty digits by damped Newton; kind is "logistic" or "poisson"."""
    n, d = X.shape
    weight = np.ones(n) if weight is None else np.asarray(weight, float)
    with mp.workdps(60):
        A, w = mp.matrix(X.tolist()), mp.matrix(list(start) if start is not None else [0.0] * d)
        for _ in range(400):
            m = A * w
            mean = [1 / (1 + mp.exp(-t)) if kind == "logistic" else mp.exp(t) for t in m]
            g, H = mp.matrix(d, 1), mp.eye(d) * (n * mp.mpf(l2))
            for i in range(n):
                slope = mean[i] * (1 - mean[i]) if kind == "logistic" else mean[i]
                for j in range(d):
                    g[j] += mp.mpf(weight[i]) * (mean[i] - mp.mpf(float(y[i]))) * A[i, j]
                    for k in range(d):
                        H[j, k] += mp.mpf(weight[i]) * slope * A[i, j] * A[i, k]
            g += n * mp.mpf(l2) * w
            step = mp.lu_solve(H, g)
            size = max(abs(s) for s in step)
            w = w - step / max(1, size)
            if size < mp.mpf(10) ** -40:
                break
        return np.array([float(v) for v in w])


PAIRS = np.zeros((24, 2))
PAIRS[:12, 0] = PAIRS[12:, 1] = 1.0
NEARLY = PAIRS.copy()
NEARLY[23, 1] = 0.001
LINE = np.array([[1.0], [2.0], [-1.0], [-1.5]])
SIDES = np.array([1.0, 1.0, 0.0, 0.0])

TAILS = {
    "separable, penalty 1e-16": (LINE, SIDES, "logistic", 1e-16, None),
    "separable, penalty 1e-30": (LINE, SIDES, "logistic", 1e-30, None),
    "weights of 1e8 beside 1e-6": (
        NEARLY,
        np.r_[[1.0] * 7, [0.0] * 5, [1.0] * 11, 0.0],
        "logistic",
        0.0,
        np.r_[[1e8] * 12, [1e-6] * 12],
    ),
    "rare counts of little weight": (
        PAIRS,
        np.r_[[3.0] * 12, [0.0] * 11, 1e-6],
        "poisson",
        0.0,
        np.r_[[1e8] * 12, [1e-8] * 12],
    ),
    "heavy right, light wrong": (
        np.array([[1.0], [2.0], [-1.0], [1.0]]),
        np.array([1.0, 1.0, 0.0, 0.0]),
        "logistic",
        0.0,
        np.array([1e8, 1e8, 1e8, 1e-8]),
    ),
    "all weights 1e-30": (LINE, np.array([1.0, 0.0, 0.0, 1.0]), "logistic", 0.0, np.full(4, 1e-30)),
}


@pytest.mark.parametrize("case", list(TAILS))
def test_newton_continues_until_every_row_has_settled(case):
    X, y, kind, l2, weight = TAILS[case]
    loss = glm.Logistic() if kind == "logistic" else glm.Poisson()
    fitted = glm.fit(X, y, loss, l2, sample_weight=weight)
    np.testing.assert_allclose(fitted.w, exact_weights(X, y, kind, l2, weight), rtol=1e-9)


def test_soft_labels_far_in_the_tail_are_fitted():
    fitted = glm.fit(np.ones((3, 1)), [1e-16, 1e-16, 2e-16], glm.Logistic())
    assert fitted.w[0] == pytest.approx(np.log(4e-16 / 3), rel=1e-12)


@pytest.mark.parametrize("weight", [np.r_[[1e8] * 12, [1e-4] * 12], np.full(24, 1e-16), np.full(24, 1e18)])
def test_separation_is_found_for_any_weights(weight):
    y = np.r_[[1.0] * 7, [0.0] * 5, [1.0] * 12]
    with pytest.raises(dm.Refusal, match="separate"):
        glm.fit(PAIRS, y, glm.Logistic(), sample_weight=weight)


def test_a_tiny_target_is_not_taken_for_zero():
    X = np.array([[1.0, 0.5], [2.0, -1.0], [-1.0, 0.3], [0.2, 0.7]])
    y = np.array([1.0, 2.0, 3.0, -1.0])
    small = glm.fit(X, y * 1e-19, glm.Squared(), start=[0.0, 0.0])
    np.testing.assert_allclose(small.w, glm.fit(X, y, glm.Squared()).w * 1e-19, rtol=1e-9)


def test_an_outlier_without_weight_does_not_overflow_a_poisson_fit():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((6, 2)), np.array([1.0, 0.0, 2.0, 1.0, 0.0, 3.0])
    X[0] = [3e3, 3e3]
    with_it = glm.fit(X, y, glm.Poisson(), sample_weight=[0, 1, 1, 1, 1, 1])
    np.testing.assert_allclose(with_it.w, glm.fit(X[1:], y[1:], glm.Poisson()).w, rtol=1e-9)
    with pytest.raises(dm.Refusal, match="not finite at these parameters"):
        glm.fit_at(X, y, glm.Poisson(), [1e4, 0.0])


def test_a_start_far_away_ends_at_the_same_place():
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((20, 2)), rng.poisson(1.0, 20).astype(float)
    far = glm.fit(X, y, glm.Poisson(), 0.1, start=[1e3, 1e3])
    np.testing.assert_allclose(far.w, glm.fit(X, y, glm.Poisson(), 0.1).w, rtol=1e-10)


def test_columns_and_table_keep_their_digits_where_rows_lie_in_strong_directions_only():
    X = np.array([[1.7, 0.2, 0.5, -2.5], [1.6, 0.7, 0.3, -0.5], [-0.8, 1.3, -0.3, -0.2], [2.3, 1.1, -0.3, -0.9],
                  [-0.7, -0.3, -0.5, 0.1]])  # fmt: skip
    y, weight = np.array([18.0, 12, 15, 2, 5]), [0.1, 1e-7, 1e3, 0.1, 1e-4]
    leak = glm.measure(glm.fit(X, y, glm.Poisson(), 1e-5, sample_weight=weight), X, y, ONE)
    J = leak.jacobian.dense(slice(None))
    np.testing.assert_allclose(leak.attributes, [np.linalg.norm(J[:, :, j], 2) for j in range(4)], rtol=1e-9)
    assert leak.dataset == pytest.approx(np.linalg.norm(J.transpose(1, 0, 2).reshape(4, -1), 2), rel=1e-9)


@pytest.mark.parametrize("l2", [1e-6, 1e-9, 1e-12])
def test_rows_that_are_all_but_certain_leak_alike_in_softmax_and_logistic(l2):
    X = np.random.default_rng(0).standard_normal((10, 3))
    y = (X @ [1.0, 2.0, -1.0] > 0).astype(float)
    two = glm.measure(glm.fit(X, y, glm.Softmax(2, 0), l2), X, y, ONE).without_target()
    logistic = glm.measure(glm.fit(X, y, glm.Logistic(), l2), X, y, ONE).without_target()
    np.testing.assert_allclose(two.examples, logistic.examples, rtol=1e-7)
    np.testing.assert_allclose(two.cells, logistic.cells, rtol=1e-7)


def small_release(noise=ONE, **options):
    X = np.array([[1.0, 0.5], [2.0, -1.0], [-1.0, 0.3], [1.0, 0.1], [-0.5, 2.0], [0.2, 0.9]])
    y = np.array([1.0, 1.0, 0.0, 0.0, 0.0, 1.0])
    fit = glm.fit(X, y, glm.Logistic(), 0.1)
    return fit, X, y, glm.measure(fit, X, y, noise, **options)


def test_an_invertible_image_loses_nothing_however_it_is_scaled():
    _, _, _, leak = small_release()
    np.testing.assert_allclose(leak.of_linear_map(np.diag([1.0, 1e-12])).examples, leak.examples, rtol=1e-9)
    _, _, _, uneven = small_release(dm.CorrelatedGaussian(np.diag([1.0, 1e-24])))
    np.testing.assert_allclose(uneven.of_linear_map(np.eye(2)).examples, uneven.examples, rtol=1e-9)
    with pytest.raises(dm.Refusal, match="nearly dependent"):
        leak.of_linear_map([[1.0, 1.0], [1.0, 1.0 + 1e-11]])


def test_an_unknown_rest_of_the_row_is_judged_in_each_columns_own_unit():
    _, X, y, _ = small_release()
    X = X * [1.0, 1e8]
    leak = glm.measure(glm.fit(X, y, glm.Squared()), X, y, ONE).without_target()
    with mp.workdps(60):
        A, b = mp.matrix(X.tolist()), mp.matrix(y.tolist())
        inverse = (A.T * A) ** -1
        w, x = inverse * (A.T * b), A[0, :].T
        J = inverse * (x * w.T + ((w.T * x)[0] - b[0]) * mp.eye(2))
        truth = float(mp.sqrt(((J.T * J) ** -1)[1, 1]))
    assert leak.deviation(0, 1, knows_rest_of_row=False) == pytest.approx(truth, rel=1e-6)


@pytest.mark.parametrize("closeness", [1e-7, 1e-9])
def test_a_single_cell_that_cancels_reads_alike_at_every_granularity(closeness):
    X = np.array([[1.0], [2.0], [3.0]])
    y = np.array([2 * (1 + closeness), 2.0, 0.0])
    y[2] = (14 - y[0] - 2 * y[1]) / 3
    leak = glm.measure(glm.fit(X, y, glm.Squared()), X, y, ONE)
    cell = leak.cells[0, 0]
    assert 0 < cell < 1e-7
    assert leak.subset([0], [0]) == pytest.approx(cell, rel=1e-6)
    assert leak.mask(np.array([[True], [False], [False]])) == pytest.approx(cell, rel=1e-6)


def test_a_row_far_in_the_tail_is_exposed_by_an_exact_release_too():
    X, y = np.array([[1.0], [-1.0], [0.5], [400.0]]), np.array([1.0, 0.0, 0.0, 1.0])
    fit = glm.fit(X, y, glm.Logistic())
    assert np.isinf(glm.measure(fit, X, y, dm.no_noise).cells).all()
    assert (glm.measure(fit, X, y, ONE).cells > 0).all()


def test_another_table_with_the_same_margins_is_refused():
    fit, X, y, _ = small_release()
    across = np.array([-fit.w[1], fit.w[0]])
    with pytest.raises(dm.Refusal, match="not the row"):
        glm.measure(fit, X + np.outer(np.arange(6.0), across), y, ONE)
    with pytest.raises(dm.Refusal, match="not the row"):
        glm.measure(fit, X, 1 - y, ONE)


def test_labels_in_unlike_units_or_of_unlike_targets_do_not_compose():
    fit, X, y, leak = small_release()
    with pytest.raises(dm.Refusal, match="same table"):
        glm.compose([leak, glm.measure(fit, X, y, ONE, target_unit=10.0)])
    other = glm.fit(X, 1 - y, glm.Logistic(), 0.1)
    with pytest.raises(dm.Refusal, match="same table"):
        glm.compose([leak, glm.measure(other, X, 1 - y, ONE)])


def test_columns_may_be_named_by_a_mask_but_not_by_a_fraction():
    _, _, _, leak = small_release()
    np.testing.assert_array_equal(leak.attribute([False, True]), leak.attribute(1))
    for wrong in ([0.9], "a", [[0], [1]]):
        with pytest.raises(dm.Refusal):
            leak.attribute(wrong)


NONSENSE = {
    "no unknowns": lambda f, X, y: glm.measure(f, X, y, ONE, input_map=np.empty((2, 0))),
    "a number for a noise": lambda f, X, y: glm.measure(f, X, y, 0.1),
    "a label unit of text": lambda f, X, y: glm.measure(f, X, y, ONE, target_unit="a"),
    "a loss by name": lambda f, X, y: glm.fit(X, y, "squared"),
    "no penalty at all": lambda f, X, y: glm.fit(X, y, glm.Squared(), None),
    "a ragged table": lambda f, X, y: glm.fit([[1, 2], [3]], [1, 2], glm.Squared()),
    "half a class": lambda f, X, y: glm.Softmax(2.5, 0),
    "nameless persons": lambda f, X, y: glm.measure(f, X, y, ONE).group(np.full(6, np.nan)),
    "lists as persons": lambda f, X, y: glm.measure(f, X, y, ONE).group([[1]] * 6),
    "two columns at once": lambda f, X, y: glm.measure(f, X, y, ONE).deviation(0, [0, 1]),
    "weights over 200 decades": lambda f, X, y: glm.fit(X, y, glm.Squared(), sample_weight=[1e-100, 1, 1, 1, 1, 1e100]),
    "soft labels fitted to rounding": lambda f, X, y: _distilled(),
}


def _distilled():
    rng = np.random.default_rng(0)
    U, V = (np.linalg.qr(rng.standard_normal(s))[0] for s in ((14, 3), (3, 3)))
    X = (U * np.sqrt(14) * [1, 1e-6, 1e-12]) @ V.T
    return glm.fit(X, 1 / (1 + np.exp(-X @ rng.standard_normal(3))), glm.Logistic())


@pytest.mark.parametrize("call", list(NONSENSE.values()), ids=list(NONSENSE))
def test_nonsense_is_refused_in_one_line(call):
    fit, X, y, _ = small_release()
    with pytest.raises(dm.Refusal) as caught:
        call(fit, X, y)
    assert "\n" not in str(caught.value)


def test_a_scale_can_be_computed_for_figures_of_groups():
    _, _, _, leak = small_release()
    groups = leak.group([1, 1, 2, 2, 3, 3])
    assert leak.scale_for(0.5, groups) == pytest.approx(max(groups.values()) / 0.5)
