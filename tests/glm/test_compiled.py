"""The oracle is the plain path, itself held to dense singular values (test_secular.py runs whole on either path)."""

from __future__ import annotations

import math
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import dosimeter as dm
from dosimeter import glm
from dosimeter.core.errors import Refusal
from dosimeter.glm import compiled, programs, secular

from .problems import adversarial, ordinary

pytest.importorskip("llvmlite", reason="the compiled path needs the extra `fast`")

SCALAR = [p for p in [*ordinary(), *ordinary(seed=1, n=60, d=9), *adversarial()] if not isinstance(p.loss, glm.Softmax)]
READINGS = {
    "examples": lambda leak: leak.examples,
    "without the label": lambda leak: leak.without_label().examples,
    "a block of columns": lambda leak: leak.attribute([0, leak.m - 1] if leak.m > 1 else [0]),
    "columns": lambda leak: leak.attributes,
    "the table": lambda leak: leak.dataset,
    "half of the rows": lambda leak: leak.subset(np.arange(leak.n) % 2 == 0, label=True),
}


@pytest.fixture
def everywhere(monkeypatch):
    """The compiled path, however few the rows."""
    monkeypatch.setattr(compiled, "FEWEST", 0)


def table(n, d, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    y = (rng.random(n) < 1 / (1 + np.exp(-X @ rng.standard_normal(d) / np.sqrt(d)))).astype(float)
    return X, y, glm.fit(X, y, glm.Logistic(), 1e-3)


def test_where_llvmlite_is_installed_it_compiles_the_programs():
    assert compiled.available()


@pytest.mark.parametrize("problem", SCALAR, ids=lambda p: p.name)
def test_both_paths_say_the_same(problem, monkeypatch):
    fit = problem.fit()
    for name, reading in READINGS.items():
        monkeypatch.setattr(compiled, "FEWEST", 10**18)
        plain = reading(glm.measure(fit, problem.X, problem.y, dm.Gaussian(0.5)))
        monkeypatch.setattr(compiled, "FEWEST", 0)
        fast = reading(glm.measure(fit, problem.X, problem.y, dm.Gaussian(0.5)))
        np.testing.assert_allclose(fast, plain, rtol=1e-12, atol=0, err_msg=name)


@pytest.mark.parametrize(("n", "d"), [(2_100, 3), (5_000, 20), (3_000, 40), (2_500, 86)])
def test_both_paths_say_the_same_of_ordinary_tables(n, d, monkeypatch):
    X, y, fit = table(n, d)
    fast = glm.measure(fit, X, y, dm.Gaussian(1.0))
    fast_rows, fast_table = fast.examples, fast.dataset
    monkeypatch.setattr(compiled, "FEWEST", 10**18)
    plain = glm.measure(fit, X, y, dm.Gaussian(1.0))
    np.testing.assert_allclose(fast_rows, plain.examples, rtol=1e-13)
    assert fast_table == pytest.approx(plain.dataset, rel=1e-13)


def test_no_row_of_an_ordinary_table_is_handed_back(monkeypatch):
    def refuse(*_):
        raise AssertionError("handed back")

    X, y, fit = table(4_000, 20)
    monkeypatch.setattr(secular, "_plain", refuse)
    assert (glm.measure(fit, X, y, dm.Gaussian(1.0)).examples > 0).all()


def test_a_small_table_does_not_call_the_programs(monkeypatch):
    def refuse():
        raise AssertionError("compiled")

    X, y, fit = table(compiled.FEWEST - 1, 5)
    monkeypatch.setattr(compiled, "_programs", refuse)
    assert (glm.measure(fit, X, y, dm.Gaussian(1.0)).examples > 0).all()


@pytest.mark.parametrize("scale", [1e-170, 1e-60, 1e-8, 1e8, 1e60, 1e160])
def test_rows_too_long_or_too_short_for_the_program_are_handed_back_and_right(everywhere, scale):
    rng = np.random.default_rng(0)
    Z, zero, nothing = rng.standard_normal((20, 5)), np.zeros(5), np.zeros(20)
    got = secular.largest_eigenvalues(np.ones(5), Z * scale, zero, nothing, nothing, np.full(20, 1 / scale))
    np.testing.assert_allclose(got, [math.fsum(z * z) * scale for z in Z], rtol=1e-14)


def test_a_row_that_is_refused_is_named_in_whatever_block_it_lies(everywhere, monkeypatch):
    monkeypatch.setattr(secular, "COMPILED_BLOCK", 5 * 40)
    Z, one = np.ones((200, 5)), np.ones(200)
    Z[137, 2] = np.nan
    with pytest.raises(Refusal, match="row 137 "):
        secular.largest_eigenvalues(np.ones(5), Z, np.zeros(5), 0 * one, one, one)


@pytest.fixture(scope="module", params=[True, False], ids=["32 wide registers", "16 narrow ones"])
def registers(request):
    """The programs as they are written for either kind of processor; this one runs both."""
    machine = compiled.build(lambda _: programs.source(request.param))
    return compiled.Programs.of(machine)


@pytest.mark.parametrize("d", [9, 16, 20, 23, 40])
@pytest.mark.parametrize("n", [1, 63, 64, 65, 200])
def test_the_moments_are_the_exact_sums(registers, n, d, monkeypatch):
    monkeypatch.setattr(compiled, "_programs", lambda: registers)
    rng = np.random.default_rng([n, d])
    X, weight, first = rng.standard_normal((n, d)), 10 ** rng.uniform(-4, 4, n), rng.standard_normal(n)
    second = [[math.fsum(weight * X[:, i] * X[:, j]) for j in range(d)] for i in range(d)]
    size = np.sqrt(weight @ (X * X))
    for order in "CF":
        G, q = compiled.moments(np.asarray(X, order=order), weight, first)
        np.testing.assert_array_less(abs(G - second), 1e-14 * np.outer(size, size))
        np.testing.assert_array_less(abs(q - [math.fsum(first * x) for x in X.T]), 1e-14 * (abs(first) @ abs(X)))


def test_threads_do_not_disturb_each_other():
    X, y, fit = table(4_000, 12)
    want = glm.measure(fit, X, y, dm.Gaussian(1.0)).examples
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: glm.measure(fit, X, y, dm.Gaussian(1.0)).examples, range(8)))
    assert all(np.array_equal(one, want) for one in found)


ALONE = """
import sys
if {absent}:
    sys.modules["llvmlite"] = None
import numpy as np, dosimeter as dm
from dosimeter import glm
from dosimeter.glm import compiled
X = np.random.default_rng(0).standard_normal((3000, 10))
y = X @ np.ones(10) + np.random.default_rng(1).standard_normal(3000)
early = "llvmlite.binding" in sys.modules
leak = glm.measure(glm.fit(X, y, glm.Squared()), X, y, dm.Gaussian(1.0))
print(early, compiled.available(), leak.examples.max().hex())
"""


def alone(absent: bool) -> tuple[str, str, float]:
    code = ALONE.format(absent=absent)
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    early, ready, figure = done.stdout.split()
    return early, ready, float.fromhex(figure)


def test_without_llvmlite_the_package_works_and_says_the_same_and_with_it_it_is_imported_late():
    without, with_it = alone(absent=True), alone(absent=False)
    assert without[:2] == ("False", "False")
    assert with_it[:2] == ("False", "True")
    assert with_it[2] == pytest.approx(without[2], rel=1e-12)


def test_an_llvmlite_that_cannot_compile_leaves_the_plain_path(monkeypatch):
    def fail():
        raise RuntimeError("no such target")

    monkeypatch.setattr(compiled, "_programs", fail)
    compiled.available.cache_clear()
    try:
        assert not compiled.available()
        assert not compiled.wanted(10**6)
    finally:
        compiled.available.cache_clear()
