"""Sparse tables are checked on their stored numbers, never changed and never written out."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import dosimeter as dm
from dosimeter import glm
from dosimeter.glm.linalg.sparse_table import as_table, check_wide, column_squares, gram_of_rows, reach, weighted_gram


@pytest.fixture
def X():
    return np.random.default_rng(0).poisson(0.5, (9, 14)).astype(float)


@pytest.mark.parametrize("kind", ["csr_array", "csc_matrix", "coo_array", "lil_matrix", "dok_array", "bsr_array"])
def test_every_format_is_taken(kind, X):
    table = getattr(sparse, kind)(X)
    np.testing.assert_array_equal(as_table(table).toarray(), X)


def test_stored_zeros_and_duplicates_are_merged_in_a_copy():
    table = sparse.coo_array(([1.0, 2.0, 0.0], ([0, 0, 1], [1, 1, 0])), shape=(2, 2)).tocsr()
    table = sparse.csr_array((np.array([1.0, 2.0, 0.0]), np.array([1, 1, 0]), np.array([0, 2, 3])), shape=(2, 2))
    rows = as_table(table)
    assert rows.nnz == 1
    assert rows[0, 1] == 3.0
    assert table.nnz == 3


def test_a_table_in_canonical_form_is_shared(X):
    table = sparse.csr_array(X)
    assert np.shares_memory(as_table(table).data, table.data)


def test_products_agree_with_those_of_the_array(X):
    rng = np.random.default_rng(1)
    weight, w, table = rng.random(9), rng.standard_normal(14), sparse.csr_array(X)
    np.testing.assert_allclose(gram_of_rows(table), X @ X.T)
    np.testing.assert_allclose(weighted_gram(table, weight), X.T @ (weight[:, None] * X), atol=1e-14)
    np.testing.assert_allclose(column_squares(table, weight), weight @ X**2)
    np.testing.assert_allclose(reach(table, w), np.abs(X) @ np.abs(w))
    np.testing.assert_allclose(reach(X, w), np.abs(X) @ np.abs(w))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X: X.astype(complex), "real numbers"),
        (lambda X: X * np.where(X > 2, np.nan, 1.0), "not finite at row"),
        (lambda X: X * 1e70, "rescale it"),
        (lambda X: X[:0], "rows and columns"),
    ],
)
def test_faults_are_named(change, message, X):
    X[3, 5] = 3.0
    bad = sparse.csr_array(change(X))
    with pytest.raises(dm.Refusal, match=message):
        check_wide(bad, np.zeros(bad.shape[0]))


def test_a_fault_has_its_position(X):
    X[3, 5] = np.inf
    with pytest.raises(dm.Refusal, match="row 3, column 5"):
        glm.fit(sparse.csr_array(X), np.arange(9.0), glm.Squared(), 0.1)


def test_targets_and_weights_are_checked_as_for_an_array(X):
    table = sparse.csr_array(X)
    with pytest.raises(dm.Refusal, match="one value for each of the 9 rows"):
        glm.fit(table, np.zeros(8), glm.Squared(), 0.1)
    with pytest.raises(dm.Refusal, match="must not be negative"):
        glm.fit(table, np.arange(9.0), glm.Squared(), 0.1, sample_weight=-np.ones(9))


def test_functions_that_need_an_array_say_so(X):
    table, y = sparse.csr_array(X), np.arange(9.0)
    fitted = glm.fit(table, y, glm.Squared(), 0.1)
    with pytest.raises(dm.Refusal, match=r"scipy\.sparse"):
        glm.membership(fitted, table, y, dm.Gaussian(1.0))
