"""The oracle is the Jacobian itself, written out, and its dense singular values; or many digits."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dosimeter.core.errors import Refusal
from dosimeter.glm.jacobians.scalar_jacobian import _second_and_first
from dosimeter.glm.linalg import ritz as kernel
from dosimeter.glm.linalg import secular
from dosimeter.glm.linalg.secular import largest_eigenvalues, row_eigenvalues

Array = np.ndarray


@dataclass(frozen=True)
class Case:
    """H = V diag(L) Vᵀ, and a row per entry of r: J = −H⁻¹ [a x wᵀ + r I, −c x]."""

    V: Array
    L: Array
    X: Array
    w: Array
    r: Array
    a: Array
    c: Array

    def dense(self) -> Array:
        """‖J‖₂ of every row, from J written out."""
        inverse = (self.V / self.L) @ self.V.T
        eye = np.eye(len(self.w))
        rows = zip(self.X, self.r, self.a, self.c, strict=True)
        stacks = [np.column_stack([a * np.outer(x, self.w) + r * eye, -c * x]) for x, r, a, c in rows]
        return np.array([np.linalg.svd(-inverse @ J, compute_uv=False)[0] for J in stacks])

    def arguments(self) -> tuple[Array, ...]:
        B = self.V / self.L
        A = self.a**2 * (self.w @ self.w) + self.c**2
        return B, self.L**-2.0, B.T @ self.w, self.a, self.r, A

    def fast(self) -> Array:
        return np.sqrt(row_eigenvalues(self.X, *self.arguments(), rest=self.c**2))


def ordinary(rng: np.random.Generator, d: int, n: int = 8) -> Case:
    V = np.linalg.qr(rng.normal(size=(d, d)))[0]
    L = np.sort(10 ** rng.uniform(-1, 1, d))
    X, w = rng.normal(size=(n, d)), rng.normal(size=d)
    return Case(V, L, X, w, rng.normal(size=n), rng.random(n), np.ones(n))


Twist = Callable[[Case, np.random.Generator], Case]


def _along(case: Case, axis: Array, rng: np.random.Generator) -> Array:
    return np.outer(rng.normal(size=len(case.r)), axis)


def _parallel_and_opposed(case: Case, rng: np.random.Generator) -> Case:
    X = _along(case, case.w, rng)
    return replace(case, X=X, r=-case.a * (X @ case.w), c=10.0 ** rng.uniform(-4, 0, len(case.r)))


def _on_the_weakest_axis(case: Case, rng: np.random.Generator) -> Case:
    w = 2.0 * case.V[:, 0]
    X = _along(case, case.V[:, 0], rng)
    return replace(case, X=X, w=w, r=-case.a * (X @ w), c=np.full(len(case.r), 1e-3))


def _deflated(case: Case, rng: np.random.Generator) -> Case:
    odd = np.arange(len(case.w)) % 2
    return replace(case, X=(case.X @ case.V * odd) @ case.V.T, w=case.V @ odd.astype(float))


def _weights_over_eight_decades(case: Case, rng: np.random.Generator) -> Case:
    s = 10 ** rng.uniform(-4, 4, len(case.r))
    return replace(case, r=case.r * s, a=case.a * s, c=case.c * s)


def _scaled(power: float) -> Twist:
    return lambda k, g: replace(k, r=k.r * power, a=k.a * power, c=k.c * power)


TWISTS: dict[str, Twist] = {
    "ordinary": lambda k, g: k,
    "r = 0": lambda k, g: replace(k, r=0 * k.r),
    "r tiny": lambda k, g: replace(k, r=k.r * 10 ** g.uniform(-150, -1, len(k.r))),
    "a = 0": lambda k, g: replace(k, a=0 * k.a),
    "x = 0": lambda k, g: replace(k, X=0 * k.X),
    "w = 0": lambda k, g: replace(k, w=0 * k.w),
    "c = 0": lambda k, g: replace(k, c=0 * k.c),
    "all eigenvalues equal": lambda k, g: replace(k, L=np.full(len(k.L), 0.3)),
    "half the eigenvalues equal": lambda k, g: replace(k, L=np.maximum(k.L, np.median(k.L))),
    "eigenvalues equal to 1e-10": lambda k, g: replace(k, L=1 + 1e-10 * np.sort(g.random(len(k.L)))),
    "eigenvalues equal, x small": lambda k, g: replace(k, L=np.ones(len(k.L)), X=1e-5 * k.X, w=9 * k.w),
    "x parallel to w": lambda k, g: replace(k, X=_along(k, k.w, g)),
    "equal, x parallel to w": lambda k, g: replace(k, L=np.ones(len(k.L)), X=1e-4 * _along(k, k.w, g)),
    "x parallel and opposed": _parallel_and_opposed,
    "x and w on the weakest axis": _on_the_weakest_axis,
    "x on the strongest axis": lambda k, g: replace(k, X=_along(k, k.V[:, -1], g)),
    "deflated": _deflated,
    "leverage 1e±6": lambda k, g: replace(k, X=k.X * 10 ** g.uniform(-6, 6, (len(k.r), 1))),
    "condition 1e12": lambda k, g: replace(k, L=np.geomspace(1e-6, 1e6, len(k.L))),
    "weights over eight decades": _weights_over_eight_decades,
    "1e150": _scaled(1e150),
    "1e-150": _scaled(1e-150),
    "long x": lambda k, g: replace(k, X=k.X * 1e75, w=k.w * 1e-75, r=k.r * 1e70),
    "long w": lambda k, g: replace(k, w=k.w * 1e8),
    "one weak axis": lambda k, g: replace(k, L=np.append(1e-3, 1 + 1e-3 * np.sort(g.random(len(k.L) - 1)))),
    "two weak axes": lambda k, g: replace(k, L=np.append([1.0, 1 + 1e-6], np.full(99, 3.0))[: len(k.L)]),
}
CANCELLING = {"x parallel and opposed", "x and w on the weakest axis"}


@pytest.mark.parametrize("d", [1, 2, 3, 8, 30, 60])
@pytest.mark.parametrize("name", TWISTS)
def test_it_is_the_norm_of_the_jacobian_written_out(name: str, d: int) -> None:
    rng = np.random.default_rng([d, len(name)])
    case = TWISTS[name](ordinary(rng, d), rng)
    np.testing.assert_allclose(case.fast(), case.dense(), rtol=1e-9 if name in CANCELLING else 1e-12)


MIXABLE = [name for name in TWISTS if name not in {"1e150", "1e-150", "long x"}]
seeds, sizes = st.integers(0, 2**32 - 1), st.sampled_from([1, 2, 3, 5, 12, 26, 40])
decades = st.floats(-6, 6)


@settings(max_examples=150, deadline=None)
@given(seeds, sizes, st.sampled_from(MIXABLE), st.sampled_from(MIXABLE), decades, decades)
def test_two_difficulties_at_once_are_no_harder(
    seed: int, d: int, first: str, second: str, along: float, across: float
) -> None:
    rng = np.random.default_rng(seed)
    case = ordinary(rng, d, n=3)
    # On the axes of H: a rotation would blur x by its rounding times the condition, for the oracle as well.
    case = replace(case, V=np.eye(d), X=case.X * 10**along, r=case.r * 10**across)
    case = TWISTS[second](TWISTS[first](case, rng), rng)
    want = case.dense()
    parts = abs(case.r) / case.L[0] + np.hypot(case.a * np.linalg.norm(case.w), case.c) * np.linalg.norm(
        case.X @ case.V / case.L, axis=1
    )
    # What cancels in the data cancels in the oracle as well: both know the norm to rounding of its parts.
    np.testing.assert_array_less(abs(case.fast() - want), 1e-12 * want + 1e-14 * parts + 1e-300)


def _many_digits(case: Case, i: int) -> float:
    with mpmath.workdps(60):
        z = mpmath.matrix(case.X[i]), mpmath.matrix(case.w)
        d = len(case.w)
        J = mpmath.mpf(case.a[i]) * z[0] * z[1].T + mpmath.mpf(case.r[i]) * mpmath.eye(d)
        for k in range(d):
            J[k, :] = J[k, :] / mpmath.mpf(case.L[k])
        u = mpmath.matrix([mpmath.mpf(case.c[i]) * z[0][k] / mpmath.mpf(case.L[k]) for k in range(d)])
        return float(mpmath.sqrt(max(mpmath.eigsy(J * J.T + u * u.T, eigvals_only=True))))


@pytest.mark.parametrize("name", ["ordinary", "condition 1e12", "two weak axes", "leverage 1e±6", "c = 0"])
def test_sixty_digits_agree(name: str) -> None:
    rng = np.random.default_rng(3)
    case = TWISTS[name](replace(ordinary(rng, 4, n=4), V=np.eye(4)), rng)
    want = [_many_digits(case, i) for i in range(4)]
    np.testing.assert_allclose(case.fast(), want, rtol=3e-15)


def test_sixty_digits_agree_where_the_row_cancels_to_a_millionth() -> None:
    x, w, ones = np.array([[3.0, 0.0, 0.0]]), np.array([2.0, 0.0, 0.0]), np.ones(1)
    near = -6.0 * (1 - 2.0**-20)
    case = Case(np.eye(3), np.array([1e-6, 1.0, 2.0]), x, w, near * ones, ones, 2.0**-21 * ones)
    np.testing.assert_allclose(case.fast(), _many_digits(case, 0), rtol=1e-12)


def test_an_ordinary_table_never_needs_the_dense_solution(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> Array:
        raise AssertionError("dense")

    monkeypatch.setattr(secular, "_dense", refuse)
    case = ordinary(np.random.default_rng(0), 40, n=100)
    np.testing.assert_allclose(case.fast(), case.dense(), rtol=1e-12)


def test_the_dense_solution_alone_says_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    case = ordinary(np.random.default_rng(1), 12, n=50)
    want = case.fast()
    monkeypatch.setattr(secular, "CANCELLED", np.inf)
    np.testing.assert_allclose(case.fast(), want, rtol=1e-13)


def test_blocks_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    case = ordinary(np.random.default_rng(2), 30, n=101)
    want = case.fast()
    monkeypatch.setattr(secular, "BLOCK", 30 * 7)
    np.testing.assert_allclose(case.fast(), want, rtol=1e-13)


@pytest.mark.parametrize("scale", [1e-170, 1e-60, 1e-8, 1e8, 1e60, 1e160])
def test_rows_very_long_or_very_short_keep_their_digits(scale: float) -> None:
    rng = np.random.default_rng(0)
    Z, zero, nothing = rng.standard_normal((20, 5)), np.zeros(5), np.zeros(20)
    got = largest_eigenvalues(np.ones(5), Z * scale, zero, nothing, nothing, np.full(20, 1 / scale))
    np.testing.assert_allclose(got, [math.fsum(z * z) * scale for z in Z], rtol=1e-14)


def test_a_row_that_is_refused_is_named_in_whatever_block_it_lies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secular, "BLOCK", 5 * 40)
    Z, ones = np.ones((200, 5)), np.ones(200)
    Z[137, 2] = np.nan
    with pytest.raises(Refusal, match="row 137 "):
        largest_eigenvalues(np.ones(5), Z, np.zeros(5), 0 * ones, ones, ones)


def test_threads_do_not_disturb_each_other() -> None:
    case = ordinary(np.random.default_rng(12), 12, n=4_000)
    want = case.fast()
    with ThreadPoolExecutor(4) as pool:
        figures = list(pool.map(lambda _: case.fast(), range(8)))
    assert all(np.array_equal(figure, want) for figure in figures)


@pytest.mark.parametrize("d", [9, 16, 20, 23, 40, 60])
@pytest.mark.parametrize("n", [1, 63, 64, 65, 200])
def test_the_moments_behind_the_whole_table_are_the_exact_sums(n: int, d: int) -> None:
    rng = np.random.default_rng([n, d])
    X, weight, first = rng.standard_normal((n, d)), 10 ** rng.uniform(-4, 4, n), rng.standard_normal(n)
    second = [[math.fsum(weight * X[:, i] * X[:, j]) for j in range(d)] for i in range(d)]
    size = np.sqrt(weight @ (X * X))
    for order in "CF":
        G, q = _second_and_first(np.asarray(X, order=order), weight, first)
        np.testing.assert_array_less(abs(G - second), 1e-14 * np.outer(size, size))
        np.testing.assert_array_less(abs(q - [math.fsum(first * x) for x in X.T]), 1e-14 * (abs(first) @ abs(X)))


def test_rows_given_as_z_or_as_x_are_the_same_rows() -> None:
    case = ordinary(np.random.default_rng(4), 9, n=20)
    B, D, v, a, r, A = case.arguments()
    np.testing.assert_allclose(largest_eigenvalues(D, case.X @ B, v, a, r, A), case.fast() ** 2, rtol=1e-13)


def test_an_intercept_is_a_column_of_ones() -> None:
    case = ordinary(np.random.default_rng(5), 6, n=20)
    B, D, v, a, r, A = case.arguments()
    ones = np.column_stack([case.X[:, :-1], np.ones(20)])
    want = row_eigenvalues(ones, B, D, v, a, r, A)
    np.testing.assert_allclose(row_eigenvalues(case.X[:, :-1], B, D, v, a, r, A), want, rtol=1e-13)


def test_directions_without_noise_of_their_own_may_be_many() -> None:
    rng = np.random.default_rng(6)
    J = rng.normal(size=(5, 2))
    Q, root, turn = np.linalg.svd(J)
    g, X, r, a = rng.normal(size=2), rng.normal(size=(7, 5)), rng.normal(size=7), rng.random(7)
    D, v = np.append(root**2, np.zeros(3)), np.append(root * (turn @ g), np.zeros(3))
    got = row_eigenvalues(X, Q, D, v, a, r, a**2 * (g @ g))
    want = [np.linalg.norm(a[i] * np.outer(X[i], g) + r[i] * J, 2) ** 2 for i in range(7)]
    np.testing.assert_allclose(got, want, rtol=1e-12)


def test_a_row_of_weight_zero_leaks_nothing() -> None:
    case = ordinary(np.random.default_rng(7), 5)
    off = np.arange(8) % 2.0
    assert (replace(case, r=case.r * off, a=case.a * off, c=case.c * off).fast()[::2] == 0).all()


def test_no_rows_give_no_figures() -> None:
    assert replace(ordinary(np.random.default_rng(8), 3, n=0)).fast().shape == (0,)


def test_inputs_are_left_alone() -> None:
    case = ordinary(np.random.default_rng(9), 4)
    B, D, v, a, r, A = case.arguments()
    Z = 1e9 * (case.X @ B)
    copies = [x.copy() for x in (D, Z, v, a, r, A)]
    largest_eigenvalues(D, Z, v, a, r, A)
    for before, after in zip(copies, (D, Z, v, a, r, A), strict=True):
        np.testing.assert_array_equal(before, after)


def test_a_few_poles_stand_for_two_hundred() -> None:
    rng = np.random.default_rng(10)
    D = np.append(1.0, np.sort(rng.random(200) ** 3)[::-1])
    poles = kernel.Poles.below(D, np.zeros(201))
    few, share = poles.lumped()
    e = np.geomspace(kernel.NEAREST, 1e6, 300)
    true = 1 / np.add.outer(poles.outer[:, 0], e)
    lumped = share.T @ (1 / np.add.outer(few.outer[:, 0].astype(float), e))
    assert len(few.outer) == kernel.LUMPS
    assert abs(lumped / true - 1).max() < 1e-6


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"D": np.array([1.0, 2.0])}, "descending"),
        ({"D": np.array([1.0, -1.0])}, "negative"),
        ({"v": np.ones(3)}, "as long"),
        ({"Z": np.ones((3, 3))}, "Z must be"),
        ({"a": np.ones(2)}, "one value per row"),
        ({"A": -np.ones(3)}, "not negative"),
        ({"r": np.full(3, np.nan)}, "finite"),
        ({"Z": np.full((3, 2), np.nan)}, "row 0"),
        ({"Z": np.array([[1.0, 1.0], [1e200, 0.0], [1.0, 1.0]])}, "row 1"),
    ],
)
def test_bad_input_is_refused_by_name(change: dict[str, Array], word: str) -> None:
    good = {"D": np.ones(2), "Z": np.ones((3, 2)), "v": np.ones(2), "a": np.ones(3), "r": np.ones(3)}
    with pytest.raises(Refusal, match=word):
        largest_eigenvalues(**{**good, "A": 9 * np.ones(3), **change})


def test_a_matrix_that_does_not_fit_is_refused() -> None:
    B, D, v, a, r, A = ordinary(np.random.default_rng(11), 3).arguments()
    with pytest.raises(Refusal, match="do not fit"):
        row_eigenvalues(np.ones((8, 1)), B, D, v, a, r, A)
