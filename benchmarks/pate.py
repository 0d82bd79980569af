"""What the exact leakage of a noisy vote costs: ratios in one process, minima of several runs, seconds of one core.

    python benchmarks/pate.py [--runs 3] [--quick]

250 teachers, 10 classes, votes simulated with a consensus Beta(8, 1), γ = 0.05. Exact leakage per query against
`scipy.integrate.quad` on the m integrals of eq. 45 of [Saeidian21], at least 100 times faster; a million histograms,
below 15 s, finding equal ones included; growth with m and γ; the other noises; and the chances of winning.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable

import numpy as np
from scipy.integrate import quad

from dosimeter import pate
from dosimeter.core.noise import Density, Exponential, Gaussian, Gumbel, Laplace, LogisticNoise
from dosimeter.pate.histograms import shapes

TEACHERS, CLASSES, GAMMA = 250, 10, 0.05
LEAST_RATIO, MOST_SECONDS = 100.0, 15.0


def consensus(queries: int, classes: int, rng: np.random.Generator) -> np.ndarray:
    """(queries, classes) v⁻: a share Beta(8, 1) of the teachers agree, the rest spread; one of the top is left out."""
    agree = rng.beta(8, 1, queries)
    rest = rng.dirichlet(np.ones(classes - 1), queries) * (1 - agree)[:, None]
    votes = rng.multinomial(TEACHERS, np.column_stack([agree, rest]))
    votes[np.arange(queries), votes.argmax(axis=1)] -= 1
    return votes


def best(runs: int, call: Callable[[], object]) -> float:
    """Least seconds of one core that a call takes: other work on the machine is not counted."""
    least = np.inf
    for _ in range(runs):
        start = time.process_time()
        call()
        least = min(least, time.process_time() - start)
    return least


def by_quad(others: np.ndarray, gamma: float) -> float:
    """Eq. 45: m integrals, kinks given, over 40 scales on either side."""
    total, reach = 0.0, 40 / gamma
    for j in range(len(others)):
        v = others + (np.arange(len(others)) == j)

        def density(s: float, v: np.ndarray = v, j: int = j) -> float:
            z = gamma * (s - v)
            tail = 0.5 * np.exp(-np.abs(z))
            G = np.where(z < 0, tail, 1 - tail)
            G[j] = gamma * tail[j]
            return float(G.prod())

        kinks = np.unique(v).astype(float)
        total += quad(density, kinks[0] - reach, kinks[-1] + reach, points=kinks, limit=200)[0]
    return float(np.log(total))


def against_quad(runs: int, rng: np.random.Generator) -> None:
    """Microseconds a query, ours for 20,000 queries at a time and for one."""
    votes, noise = consensus(20_000, CLASSES, rng), Laplace(1 / GAMMA)
    few = votes[:8]
    peer = best(runs, lambda: [by_quad(v, GAMMA) for v in few]) / len(few)
    ours = best(runs, lambda: pate.leakage(votes, noise)) / len(votes)
    alone = best(5 * runs, lambda: pate.leakage(votes[:1], noise))
    off = max(abs(by_quad(v, GAMMA) / x - 1) for v, x in zip(few, pate.leakage(few, noise), strict=True))
    print(f"{'a query':>24} {'quad':>11} {'ours':>11} {'ratio':>9} {'limit':>7}   quad is off by up to {off:.0e}")
    print(f"{'20,000 together':>24} {peer * 1e6:9.0f}us {ours * 1e6:9.2f}us {peer / ours:8.0f}x {LEAST_RATIO:6.0f}x")
    print(f"{'one alone':>24} {peer * 1e6:9.0f}us {alone * 1e6:9.0f}us {peer / alone:8.0f}x {'-':>7}", flush=True)


def a_million(rng: np.random.Generator, queries: int) -> None:
    """Seconds for all, and of them for finding the shapes."""
    votes = consensus(queries, CLASSES, rng)
    finding = best(1, lambda: shapes(votes))
    whole = best(1, lambda: pate.leakage(votes, Laplace(1 / GAMMA)))
    distinct = len(shapes(votes).gaps)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"\n{queries:,} histograms, {distinct:,} shapes: {whole:.2f} s, {finding:.2f} s of it to find the shapes; ")
    print(f"limit {MOST_SECONDS * queries / 1e6:g} s; the process held {memory:.2f} GB at most", flush=True)


def growth(runs: int, rng: np.random.Generator) -> None:
    """Microseconds a shape."""
    print("\nmicroseconds a shape, Laplace, by γ and m")
    gammas = (0.001, 0.01, 0.05, 0.2, 0.5, 2.0)
    print(f"{'m':>14}" + "".join(f"{g:>10}" for g in gammas))
    for m in (2, 10, 30, 100, 1000):
        votes = consensus(4000, m, rng)
        shaped = len(shapes(votes).gaps)
        cost = [best(runs, lambda g=g, votes=votes: pate.leakage(votes, Laplace(1 / g))) / shaped for g in gammas]
        print(f"{m:>14}" + "".join(f"{c * 1e6:10.1f}" for c in cost), flush=True)


def laws(runs: int, rng: np.random.Generator) -> None:
    """Microseconds a shape: leakage, and chances of winning."""
    votes = consensus(20_000, CLASSES, rng)
    some = votes[:4000]
    shaped, fewer = len(shapes(votes).gaps), len(shapes(some).gaps)
    print("\nmicroseconds a shape   leakage   win_probabilities")
    noises: list[Density] = [Laplace(20.0), Exponential(20.0), Gumbel(20.0), LogisticNoise(20.0), Gaussian(40.0)]
    for noise in noises:
        leak = best(runs, lambda noise=noise: pate.leakage(votes, noise)) / shaped
        wins = best(runs, lambda noise=noise: pate.win_probabilities(some, noise)) / fewer
        print(f"{noise!s:>22} {leak * 1e6:9.2f} {wins * 1e6:12.2f}", flush=True)


def bounds(runs: int) -> None:
    """Microseconds of the data-independent bound."""
    print("\nmicroseconds of log B1")
    for m in (10, 1000, 100_000):
        cost = best(10 * runs, lambda m=m: pate.data_independent_bound(m, GAMMA))
        print(f"{m:>14} {cost * 1e6:9.0f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="What the exact leakage of a noisy vote costs.")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()
    rng = np.random.default_rng(1)
    against_quad(args.runs, rng)
    a_million(rng, 100_000 if args.quick else 1_000_000)
    growth(args.runs, rng)
    laws(args.runs, rng)
    bounds(args.runs)


if __name__ == "__main__":
    main()
