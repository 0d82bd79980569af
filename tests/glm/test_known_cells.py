"""Cells that are constants: figures against refits of the table with the filled cells fixed."""

from __future__ import annotations

import numpy as np
import pytest

import dosimeter as dm
from dosimeter import glm
from dosimeter.core.errors import Refusal

RNG = np.random.default_rng(11)
N, D = 24, 3
X = RNG.normal(size=(N, D))
SCORE = X @ np.array([1.0, -0.7, 0.4]) + RNG.normal(size=N)
TARGETS = {
    "squared": (glm.Squared(), SCORE),
    "logistic": (glm.Logistic(), (SCORE > 0).astype(float)),
    "poisson": (glm.Poisson(), RNG.poisson(np.exp(SCORE / 3)).astype(float)),
    "softmax": (glm.Softmax(3, "mean"), np.digitize(SCORE, [-0.6, 0.6]).astype(float)),
}
KNOWN = RNG.random((N, D)) < 0.3
KNOWN[0], KNOWN[1], KNOWN[2] = False, [True, False, False], True
WHO = [i // 3 for i in range(N)]
SIGMA, L2 = 0.3, 0.05


def moved(loss, y, row, column):
    """dw/dx of one cell by refits, (parameters,)."""
    step, ends = 1e-4, []
    for sign in (1, -1):
        changed = X.copy()
        changed[row, column] += sign * step
        ends.append(np.ravel(glm.fit(changed, y, loss, L2, intercept=True).w, order="F"))
    return (ends[0] - ends[1]) / (2 * step)


def stacked(loss, y, rows):
    """Columns dw/du of the unknown cells of some rows."""
    cells = [moved(loss, y, i, j) for i in rows for j in range(D) if not KNOWN[i, j]]
    return np.array(cells).T if cells else np.zeros((1, 1))


@pytest.mark.parametrize("name", TARGETS)
def test_a_filled_cell_is_no_unknown_of_its_row_or_person(name):
    loss, y = TARGETS[name]
    leak = glm.measure(glm.fit(X, y, loss, L2, intercept=True), X, y, dm.Gaussian(SIGMA), include_target=False)
    known = glm.with_known(leak, KNOWN)
    for i in range(4):
        expected = np.linalg.norm(stacked(loss, y, [i]), 2) / SIGMA
        assert known.examples[i] == pytest.approx(expected, rel=2e-5, abs=1e-9)
    persons = known.group(WHO)
    for person in (0, 1):
        rows = [i for i in range(N) if WHO[i] == person]
        assert persons[person] == pytest.approx(np.linalg.norm(stacked(loss, y, rows), 2) / SIGMA, rel=2e-5)
    over = np.array([moved(loss, y, i, 1) for i in range(N) if not KNOWN[i, 1]])
    assert known.attributes[1] == pytest.approx(np.linalg.norm(over, 2) / SIGMA, rel=2e-5)
    assert (known.cells[KNOWN] == 0).all()
    np.testing.assert_array_equal(known.cells[~KNOWN], leak.cells[~KNOWN])


def test_a_row_of_constants_has_its_label_alone():
    loss, y = TARGETS["squared"]
    known = glm.with_known(glm.measure(glm.fit(X, y, loss, L2), X, y, dm.Gaussian(SIGMA)), KNOWN)
    assert known.examples[2] == pytest.approx(known.labels[2], rel=1e-12)
    assert known.without_target().examples[2] == 0.0
    assert known.mask(np.ones((N, D), dtype=bool)) == pytest.approx(known.without_target().dataset, rel=1e-12)
    with pytest.raises(Refusal, match="shape"):
        glm.with_known(known, KNOWN.T)


def test_a_tied_value_moves_the_rows_on_which_it_stands():
    loss, y = TARGETS["squared"]
    known = glm.with_known(
        glm.measure(glm.fit(X, y, loss, L2, intercept=True), X, y, dm.Gaussian(SIGMA), include_target=False), KNOWN
    )
    rows = [3, 4, 5]
    tied = sum(moved(loss, y, i, 0) for i in rows if not KNOWN[i, 0])
    rest = [moved(loss, y, i, j) for i in rows for j in (1, 2) if not KNOWN[i, j]]
    expected = np.linalg.norm(np.array([tied, *rest]), 2) / SIGMA
    assert known.group(WHO, tied=[0])[1] == pytest.approx(expected, rel=2e-5)


@pytest.mark.parametrize("options", [{}, {"noise_shape": "hessian"}, {"reweighting_rounds": 2}])
def test_a_plan_meets_its_limit_on_the_unknowns_alone(options):
    loss, y = TARGETS["squared"]
    every, some = (glm.plan(X, y, loss, L2, max_dose=2.0, intercept=True, known=k, **options) for k in (None, KNOWN))
    assert some.highest <= 2.0
    assert some.highest == pytest.approx(some.leakage.examples.max(), rel=1e-12)
    assert some.settings["scale"] <= every.settings["scale"]
