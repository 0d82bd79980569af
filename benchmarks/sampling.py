"""What exact noise costs, in units of numpy's: ratios in one process, minima of several runs.

    python benchmarks/sampling.py [--runs 9] [--quick]

`add_noise` on a million values against `values + rng.normal(...)` of numpy's default generator, limit 8x for the
Gaussian and the Laplace law; how the cost grows; correlated noise against one product L z; refining; OpenDP where it is
installed; and whether the time of a draw tells its size (Spearman's ρ, the aim is |ρ| <= 0.03; asserted nowhere).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
from scipy import stats

from dosimeter import noise_addition
from dosimeter.core.covariance import CorrelatedGaussian
from dosimeter.core.noise import Exponential, Gaussian, Gumbel, Laplace, LogisticNoise
from dosimeter.noise_addition import exact

LIMIT = 8.0
PEERS = {
    Gaussian: "normal",
    Laplace: "laplace",
    Gumbel: "gumbel",
    Exponential: "exponential",
    LogisticNoise: "logistic",
}
SCALE = 0.1


def best(runs: int, *calls: Callable[[], object]) -> list[float]:
    """Least seconds of each call; the calls take turns, so that a noisy machine disturbs all alike."""
    least = [np.inf] * len(calls)
    for _ in range(runs):
        for k, call in enumerate(calls):
            start = time.perf_counter()
            call()
            least[k] = min(least[k], time.perf_counter() - start)
    return least


def against_numpy(law: type, n: int, runs: int) -> tuple[float, float]:
    """Seconds of numpy and of ours for n values."""
    rng, values, noise = np.random.default_rng(), np.full(n, 0.25), law(SCALE)
    draw = getattr(rng, PEERS[law])
    keywords = {"scale": SCALE, "size": n}
    numpy_s, ours = best(runs, lambda: values + draw(**keywords), lambda: noise_addition.add_noise(values, noise))
    return numpy_s, ours


def laws(runs: int) -> None:
    """Every law at 1e6 values."""
    print(f"{'1e6 values':>14} {'numpy':>10} {'ours':>10} {'ratio':>7} {'limit':>6}")
    for law in PEERS:
        numpy_s, ours = against_numpy(law, 1_000_000, runs)
        limit = f"{LIMIT:.0f}x" if law in (Gaussian, Laplace) else "-"
        print(
            f"{law.__name__:>14} {numpy_s * 1e3:8.2f}ms {ours * 1e3:8.2f}ms {ours / numpy_s:6.2f}x {limit:>6}",
            flush=True,
        )


def growth(runs: int) -> None:
    """Nanoseconds a value and the ratio, by size: a fresh key costs some microseconds a call."""
    print("\ngrowth, Gaussian: nanoseconds a value, ratio to numpy")
    for n in (10, 100, 1_000, 10_000, 100_000, 1_000_000):
        numpy_s, ours = against_numpy(Gaussian, n, runs if n > 50_000 else 50 * runs)
        print(f"{n:>14} {ours / n * 1e9:10.1f} {ours / numpy_s:9.2f}x")


def correlated(runs: int) -> None:
    """One draw of N(0, LLᵀ) with certain rounding, against numpy's L z."""
    rng = np.random.default_rng(0)
    print("\ncorrelated, one draw of p values: numpy's w + L z, ours, ratio")
    for p in (10, 100, 1_000):
        R = rng.standard_normal((p, 2 * p))
        noise, values = CorrelatedGaussian(R @ R.T / p), np.zeros(p)
        numpy_s, ours = best(
            20 * runs,
            lambda noise=noise, values=values, p=p: values + noise.cholesky @ rng.standard_normal(p),
            lambda noise=noise, values=values: noise_addition.add_noise(values, noise),
        )
        print(f"{p:>14} {numpy_s * 1e3:8.3f}ms {ours * 1e3:8.3f}ms {ours / numpy_s:6.2f}x")


def refining() -> None:
    """How many entries need more than 64 bits, by grid, and what one costs."""
    print("\nrefined entries of 1e5 (Gaussian), by bits below the scale; microseconds each")
    round_exactly, refinements = exact.round_exactly, [0]

    def counted(*args: object) -> int:
        refinements[0] += 1
        return round_exactly(*args)  # type: ignore[arg-type]

    exact.round_exactly = counted
    for below in (16, 24, 28, 30, 32):
        refinements[0], start = 0, time.perf_counter()
        noise_addition.add_noise(np.zeros(100_000), Gaussian(1.0), grid=2.0**-below)
        took = time.perf_counter() - start
        print(
            f"{below:>14} {refinements[0]:>8}" + (f" {took / refinements[0] * 1e6:8.0f}" if refinements[0] > 20 else "")
        )
    exact.round_exactly = round_exactly


def opendp() -> None:
    """OpenDP's exact discrete Gaussian on the same grid, 1e4 values."""
    try:
        import opendp.prelude as dp
    except ImportError:
        print("\nOpenDP is not installed: not compared")
        return
    dp.enable_features("contrib")
    n = 10_000
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=n), dp.l2_distance(T=float)
    theirs = dp.m.make_gaussian(*space, scale=SCALE, k=-20)
    values = [0.25] * n
    opendp_s, ours = best(3, lambda: theirs(values), lambda: noise_addition.add_noise(values, Gaussian(SCALE)))
    print(f"\nOpenDP, 1e4 Gaussian values: {opendp_s * 1e3:.0f} ms, ours {ours * 1e3:.2f} ms: {opendp_s / ours:.0f}x")


def timing(draws: int) -> None:
    """Spearman's ρ of the time of single draws with the size of their noise; chance alone gives ±1/√draws."""
    print(f"\ntiming: Spearman(time, |noise|) over {draws} single draws, chance ±{1 / np.sqrt(draws):.4f}")
    value = np.zeros(1)
    for law in (Gaussian, Laplace):
        noise, taken, size = law(SCALE), np.empty(draws), np.empty(draws)
        for i in range(draws):
            start = time.perf_counter_ns()
            y = noise_addition.add_noise(value, noise)
            taken[i] = time.perf_counter_ns() - start
            size[i] = abs(y[0])
        print(f"{law.__name__:>14} {stats.spearmanr(taken, size).statistic:+.4f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="What exact noise costs.")
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()
    laws(args.runs)
    growth(args.runs)
    correlated(args.runs)
    refining()
    opendp()
    timing(2_000 if args.quick else 20_000)


if __name__ == "__main__":
    main()
