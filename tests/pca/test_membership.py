"""The attack against explicit projectors and scikit-learn's AUC, in multiple precision near a member, and by laws."""

from __future__ import annotations

import tracemalloc

import mpmath
import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from dosimeter import pca
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.notion import Standing
from dosimeter.pca import reconstruction as residuals


def rows(seed, n, d, decay=0.9):
    return np.random.default_rng(seed).standard_normal((n, d)) * decay ** np.arange(d)


def by_projectors(V, centre, members, strangers):
    """AUC for every k the slow way: a projector, a norm, scikit-learn."""
    Z = np.vstack([members, strangers]) - centre
    labels = np.repeat([1, 0], [len(members), len(strangers)])
    out = []
    for k in range(1, V.shape[1] + 1):
        left = Z @ (np.eye(len(V)) - V[:, :k] @ V[:, :k].T)
        error = np.sum(left**2, axis=1)
        error[error <= 1e-12 * np.sum(Z**2, axis=1)] = 0
        out.append(roc_auc_score(labels, -error))
    return np.array(out)


@pytest.mark.parametrize(("n", "d", "centred"), [(60, 8, True), (60, 8, False), (10, 25, True), (10, 25, False)])
def test_every_k_agrees_with_projectors_and_scikit_learn(n, d, centred):
    members, strangers = rows(1, n, d) + 1, rows(2, 45, d) + 1
    directions = pca.components_of(members, centred=centred)
    ours = pca.auc_by_components(directions, members, strangers)
    assert len(ours) == directions.rank == min(d, n - centred)
    slow = by_projectors(directions.vectors[:, : directions.rank], directions.mean, members, strangers)
    np.testing.assert_allclose(ours, slow, rtol=0, atol=1e-14)


def test_ties_of_whole_numbers_give_halves():
    rng = np.random.default_rng(3)
    members, strangers = rng.integers(0, 2, (50, 5)), rng.integers(0, 2, (60, 5))
    V = np.eye(5)
    np.testing.assert_allclose(
        pca.auc_by_components(V, members, strangers), by_projectors(V, 0, members, strangers), atol=1e-14
    )


def test_without_a_component_rows_of_equal_length_are_ties():
    rng = np.random.default_rng(35)
    members, strangers = rng.integers(0, 4, (60, 9)) / 4, rng.integers(0, 4, (60, 9)) / 4
    result = pca.attack(pca.components_of(members, centred=False), members, strangers, rng, trials=1, k=1)
    whole = [(16 * (Z * Z).sum(axis=1)).round().astype(int) for Z in (members, strangers)]
    known = roc_auc_score(np.repeat([1, 0], 60), -np.concatenate(whole))
    assert result.auc[0] == pytest.approx(known, abs=1e-12)  # one broken tie would be 1.4e-4


def test_with_fewer_rows_than_columns_members_leave_no_residual():
    members, strangers = rows(4, 10, 25, 1.0), rows(5, 30, 25, 1.0)
    auc = pca.auc_by_components(pca.components_of(members), members, strangers)
    assert len(auc) == 9
    assert auc[-1] == 1.0


def test_all_components_reveal_exactly_nothing():
    members, strangers = rows(6, 80, 6), 10 * rows(7, 50, 6)
    auc = pca.auc_by_components(pca.components_of(members), members, strangers)
    assert auc[-1] == 0.5
    assert auc[0] > 0.9


@pytest.mark.parametrize("columns", ["all", "top"])
def test_a_tiny_residual_keeps_its_digits(columns, monkeypatch):
    """A point 10⁻⁵ off the span of the components, 10³ long: the difference of squares has lost all its digits."""
    d, k = 40, 25
    V = np.linalg.qr(np.random.default_rng(8).standard_normal((d, d)))[0]
    z = V[:, :k] @ np.full(k, 200.0) + 1e-5 * V[:, k + 3]
    vectors = V if columns == "all" else V[:, :k]
    directions = pca.Components(vectors, np.ones(vectors.shape[1]), vectors.shape[1], np.zeros(d))
    with mpmath.workdps(40):
        W, x = mpmath.matrix(V[:, :k].tolist()), mpmath.matrix(z.tolist())
        # The float64 columns are orthonormal only to 1e-16; the exact span needs the inverse of their Gram matrix.
        left = x - W * mpmath.lu_solve(W.T * W, W.T * x)
        exact = float(sum(v * v for v in left))
    monkeypatch.setattr(residuals, "NEGLIGIBLE", 0.0)
    (ours,) = pca.reconstruction_error(z[None, :], directions, k)
    assert ours == pytest.approx(exact, rel=1e-6)
    subtracted = float(z @ z - np.sum((V[:, :k].T @ z) ** 2))
    # The direct way fails this test, in whatever order it sums: near 10⁶ float64 has steps of 1.16e-10, so the
    # difference is 0 or at least 16 % too large.
    assert abs(subtracted / exact - 1) > 0.1


def test_blocks_of_rows_and_components_change_nothing(monkeypatch):
    members, strangers = rows(9, 70, 11), rows(10, 33, 11)
    directions = pca.components_of(members)
    whole = pca.auc_by_components(directions, members, strangers)
    monkeypatch.setattr(residuals, "ROWS", 7)
    monkeypatch.setattr(residuals, "COLUMNS", 3)
    np.testing.assert_array_equal(pca.auc_by_components(directions, members, strangers), whole)


def test_threads_change_nothing():
    members, strangers = rows(36, 500, 30), rows(37, 400, 30)
    directions = pca.components_of(members)
    alone, shared = (pca.auc_by_components(directions, members, strangers, workers=w) for w in (1, 3))
    np.testing.assert_array_equal(alone, shared)
    with pytest.raises(Refusal, match="worker"):
        pca.auc_by_components(directions, members, strangers, workers=0)


def test_turning_the_data_turns_nothing_else():
    members, strangers = rows(11, 90, 7), rows(12, 90, 7)
    Q = np.linalg.qr(np.random.default_rng(13).standard_normal((7, 7)))[0]
    straight = pca.auc_by_components(pca.components_of(members), members, strangers)
    turned = pca.auc_by_components(pca.components_of(members @ Q), members @ Q, strangers @ Q)
    np.testing.assert_allclose(turned, straight, rtol=0, atol=1e-9)


def test_signs_of_components_do_not_matter():
    members, strangers = rows(14, 40, 6), rows(15, 40, 6)
    directions = pca.components_of(members)
    flipped = pca.Components(
        directions.vectors * [1, -1, 1, -1, -1, 1], directions.values, directions.rank, directions.mean
    )
    np.testing.assert_array_equal(
        pca.auc_by_components(flipped, members, strangers), pca.auc_by_components(directions, members, strangers)
    )


def test_everybody_twice_is_the_same_attack():
    members, strangers = rows(16, 40, 6), rows(17, 30, 6)
    once = pca.auc_by_components(pca.components_of(members), members, strangers)
    double, others = np.repeat(members, 2, axis=0), np.repeat(strangers, 2, axis=0)
    np.testing.assert_allclose(pca.auc_by_components(pca.components_of(double), double, others), once, atol=1e-9)


def test_a_person_on_both_sides_is_a_tie():
    members = rows(18, 40, 6)
    auc = pca.auc_by_components(pca.components_of(members), members, members)
    np.testing.assert_allclose(auc, 0.5, atol=1e-15)


def test_small_numbers_of_bits_are_enough():
    rng = np.random.default_rng(19)
    members, strangers = (rng.integers(0, 256, (50, 9), dtype=np.uint8) for _ in range(2))
    directions = pca.components_of(members)
    np.testing.assert_array_equal(
        pca.auc_by_components(directions, members, strangers),
        pca.auc_by_components(directions, members.astype(float), strangers.astype(float)),
    )


def test_memory_stays_below_the_data():
    members, strangers = rows(20, 30_000, 200, 1.0), rows(21, 30_000, 200, 1.0)
    directions = pca.components_of(members[:500])
    tracemalloc.start()
    pca.auc_by_components(directions, members, strangers)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < members.nbytes + strangers.nbytes


def test_some_intercepted_components_are_attacked_by_their_span():
    members, strangers = rows(22, 30, 9) + 2, rows(23, 40, 9) + 2
    directions = pca.components_of(members)
    columns = [0, 3, 7]
    slow = by_projectors(directions.vectors[:, columns], directions.mean, members, strangers)
    np.testing.assert_allclose(pca.auc_by_components(directions.select(columns), members, strangers), slow, atol=1e-14)
    caught = pca.as_components(directions.vectors[:, columns], directions.mean)
    np.testing.assert_allclose(pca.auc_by_components(caught, members, strangers), slow, atol=1e-14)


def test_components_rounded_in_transit_are_used_and_other_vectors_refused():
    members, strangers = rows(24, 30, 9), rows(25, 40, 9)
    V = pca.components_of(members, centred=False).vectors[:, :5]
    rough = pca.auc_by_components(V.astype(np.float32), members, strangers)
    np.testing.assert_allclose(rough, pca.auc_by_components(V, members, strangers), atol=2e-3)
    with pytest.raises(Refusal, match="orthonormal"):
        pca.auc_by_components(2 * V, members, strangers)
    with pytest.raises(Refusal, match="orthonormal"):
        pca.auc_by_components(np.column_stack([V, V[:, 0]]), members, strangers)


def test_the_decision_is_algorithm_1():
    V = np.linalg.qr(np.random.default_rng(26).standard_normal((5, 2)))[0]
    Z = rows(27, 20, 5, 1.0)
    error = np.array([np.linalg.norm(z - V @ V.T @ z) ** 2 for z in Z])
    R = float(np.median(error))
    np.testing.assert_array_equal(pca.decide(Z, V, R), error <= R)
    with pytest.raises(Refusal, match="threshold"):
        pca.decide(Z, V, -1.0)


def test_suspects_come_with_their_ids_the_likeliest_first():
    members, strangers = rows(28, 12, 30, 1.0), rows(29, 12, 30, 1.0)
    ids = [f"m{i}" for i in range(12)] + [f"s{i}" for i in range(12)]
    ranked = pca.rank_suspects(np.vstack([members, strangers]), ids, pca.components_of(members))
    assert {name[0] for name in ranked.ids[:12]} == {"m"}
    assert (np.diff(ranked.errors) >= 0).all()
    assert [ids[i] for i in ranked.order] == list(ranked.ids)
    with pytest.raises(Refusal, match="one id"):
        pca.rank_suspects(members, ["a"], pca.components_of(members))


def test_the_result_states_its_k_its_interval_and_chance():
    members, strangers = rows(30, 60, 30, 1.0), rows(31, 60, 30, 1.0)
    result = pca.attack(pca.components_of(members), members, strangers, np.random.default_rng(0))
    assert result.standing is Standing.LOWER_BOUND
    assert result.auc.shape == (31,)
    assert result.maximum == result.auc[result.best_k] == result.running[-1]
    assert (np.diff(result.running) >= 0).all()
    assert len(result.scores.members) == 30
    assert "every other row" in result.scores.method
    assert result.beats_chance
    assert result.p_value == 1 / 200
    assert all(isinstance(v, str | float | int | bool) for v in result.facts().values())
    fixed = pca.attack(pca.components_of(members), members, strangers, np.random.default_rng(0), k=25)
    assert fixed.scores.figure == pytest.approx(fixed.auc[25], abs=1e-15)
    assert fixed.k == 25
    assert fixed.scores.tpr(0.1)[0] >= 0.1
    assert "by chance" in repr(fixed)


def test_bad_questions_are_refused():
    members = rows(32, 20, 4)
    directions = pca.components_of(members)
    with pytest.raises(Refusal, match="columns"):
        pca.auc_by_components(directions, members, rows(0, 5, 3))
    with pytest.raises(Refusal, match="between 0 and the 4"):
        pca.scores(directions, members, members, 5)
    with pytest.raises(Refusal, match=r"rows\[1, 2\] is nan"):
        pca.auc_by_components(directions, members, np.where(np.arange(8).reshape(2, 4) == 6, np.nan, 1.0))
    with pytest.raises(CannotMeasure, match="rank 0"):
        pca.auc_by_components(pca.components_of(np.ones((5, 4))), members, members)
    with pytest.raises(CannotMeasure, match="eigenvalues"):
        pca.auc_by_components(directions.vectors, members, members, whiten=True)


def test_whitening_finds_what_a_strong_column_hides():
    """One strong direction left over, in which nothing overfits, and 25 weak ones, in which members do."""
    scale = np.concatenate([[30.0], np.full(4, 10.0), [3.0], np.full(25, 0.01)])
    members, strangers = (np.random.default_rng(s).standard_normal((45, 31)) * scale for s in (33, 34))
    directions = pca.components_of(members)
    plain = pca.auc_by_components(directions, members, strangers)
    white = pca.auc_by_components(directions, members, strangers, whiten=True)
    U = np.linalg.solve(np.cov(members.T, bias=True), (np.vstack([members, strangers]) - members.mean(axis=0)).T)
    slow = np.sum(U * (np.vstack([members, strangers]) - members.mean(axis=0)).T, axis=0)
    labels = np.repeat([1, 0], 45)
    tails = residuals.Residuals.of(directions, (members, strangers), whiten=True)
    np.testing.assert_allclose(tails.at(0), slow, rtol=1e-8)
    assert roc_auc_score(labels, -slow) > 0.9
    assert white[4] > plain[4] + 0.2  # with the strong direction among those left


def test_rows_whose_squares_overflow_are_refused_and_not_called_members():
    far = np.array([[1e200, 1.0], [2.0, 1e200], [3.0, 4.0], [5.0, 6.0]])
    near, rng = np.ones((4, 2)), np.random.default_rng(0)
    for call in (
        lambda: pca.attack(np.eye(2), near, far, rng, k=1),
        lambda: pca.auc_by_components(np.eye(2), far, near),
        lambda: pca.reconstruction_error(far, np.eye(2)[:, :1]),
        lambda: pca.decide(far, np.eye(2)[:, :1], 1.0),
    ):
        with pytest.raises(Refusal, match=r"squares of the rows overflow .*: rescale"):
            call()
