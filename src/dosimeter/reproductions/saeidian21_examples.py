"""[Saeidian21] Examples 14 and 17 number by number, and every claim of section IV that histograms can test."""

from __future__ import annotations

import math

import numpy as np

from dosimeter.core.density import Density
from dosimeter.core.noise import NOISES, Laplace
from dosimeter.pate.bounds import data_dependent_bound, data_independent_bound, overtaking_bound, uniform_bound
from dosimeter.pate.leakage import leakage
from dosimeter.pate.threshold import Threshold, threshold_leakage
from dosimeter.pate.vote_noise import VOTE_LAWS
from dosimeter.reproductions.comparison import Row, claim
from dosimeter.reproductions.saeidian21_histograms import histograms, majorises, printed_b1
from dosimeter.reproductions.saeidian21_unsafe import unsafe_adaptive_gamma_leakage, unsafe_fixed_refusal_leakage

GAMMA = 0.1
NOISE = Laplace(1 / GAMMA)
PRINTED = {(4, 3, 2, 1): 8.50e-2, (5, 2, 2, 1): 8.40e-2, (5, 3, 1, 1): 8.37e-2, (5, 3, 2, 0): 8.35e-2}
"""Example 14: (5, 3, 2, 1) without one vote, and the leakage printed for it."""
ROUNDING = 1e-12
"""Relative: float64 cannot distinguish an order or a bound more closely."""
OTHERS, CLASSES = 12, 4
"""Every histogram of this many votes on this many classes is tested if a claim is about all of them."""


def rows() -> list[Row]:
    """All rows; no data is needed."""
    return [*example_14(), *example_17(), *schur(), *independent(), *dependent(), *conclusion()]


def example_14() -> list[Row]:
    """L = 11, m = 4, γ = 0.1, votes (5, 3, 2, 1) and (3, 3, 3, 2)."""
    ours = leakage(list(PRINTED), NOISE)
    printed = [
        Row(f"Example 14 v⁻ = {v}", paper, float(value), 5e-5)
        for (v, paper), value in zip(PRINTED.items(), ours, strict=True)
    ]
    even = leakage([(2, 3, 3, 2), (3, 3, 3, 1)], NOISE)
    return [
        *printed,
        Row("Example 14 log B1", 8.61e-2, data_independent_bound(4, GAMMA), 5e-5),
        Row("Example 14 Theorem 13", 0.1, uniform_bound(GAMMA), 0.0),
        claim(
            "Example 14: (4, 3, 2, 1) leaks most, as Schur-concavity says in advance",
            bool(ours.argmax() == 0) and all(majorises(v, (4, 3, 2, 1)) for v in PRINTED),
            ", ".join(f"{value:.7f}" for value in ours),
        ),
        Row(
            "Example 14 v = (3, 3, 3, 2)",
            8.58e-2,
            float(even.max()),
            5e-5,
            f"printed cut off, not rounded: it is {even.max():.7f}, at v⁻ = (3, 3, 2, 2)",
        ),
        claim(
            "Example 14: (3, 3, 3, 2) comes closer to log B1 and γ than (5, 3, 2, 1)",
            bool(ours.max() < even.max() <= data_independent_bound(4, GAMMA) <= GAMMA),
            f"{ours.max():.7f} < {even.max():.7f} <= {data_independent_bound(4, GAMMA):.7f} <= {GAMMA}",
        ),
    ]


def example_17() -> list[Row]:
    """m = 4, γ = 0.1: no consensus and a strong one."""
    few, many = [[4, 3, 2, 1]], [[90, 5, 5, 0]]
    b1, (weak,), (strong,) = data_independent_bound(4, GAMMA), *(data_dependent_bound(v, GAMMA) for v in (few, many))
    (exact,), (closer,) = leakage(many, NOISE), overtaking_bound(many, GAMMA)
    return [
        Row("Example 17 log B1, L = 11", 8.61e-2, b1, 5e-5),
        Row("Example 17 log B2 at (4, 3, 2, 1)", 6.81e-1, float(weak), 5e-4),
        Row("Example 17 log B2 at (90, 5, 5, 0)", 1.05e-3, float(strong), 5e-6),
        claim(
            "Example 17: without consensus the data-independent bound is much tighter",
            bool(b1 < weak / 5),
            f"{b1:.4f} against {weak:.4f} (required: a fifth)",
        ),
        claim(
            "Example 17: with strong consensus the data-dependent bound is tighter",
            bool(strong < b1),
            f"{strong:.3e} against {b1:.4f}; exact {exact:.3e}, and log B3 (ours) {closer:.3e}",
        ),
    ]


def schur() -> list[Row]:
    """Definition 7, Theorem 10 with eqs. 14 and 15, Remark 11: every histogram, every comparable pair."""
    all_histograms = np.array(list(histograms(OTHERS, CLASSES)))
    pairs = [
        (i, j) for i, p in enumerate(all_histograms) for j, q in enumerate(all_histograms) if i != j and majorises(p, q)
    ]
    above, below = (np.array([pair[side] for pair in pairs]) for side in (0, 1))
    leakages = {
        (name, g): leakage(all_histograms, _noise(law, g))
        for name, law in NOISES.items()
        if law in VOTE_LAWS
        for g in (GAMMA, 1.0)
    }
    violations = {key: int(np.sum(values[above] > values[below] * (1 + ROUNDING))) for key, values in leakages.items()}
    most, least = (OTHERS // CLASSES,) * CLASSES, (OTHERS, *(0,) * (CLASSES - 1))
    among = f"{len(all_histograms)} histograms of {OTHERS} votes on {CLASSES} classes"
    return [
        _definition_7(),
        claim(
            "Theorem 10, Remark 11: the leakage is Schur-concave for log-concave noise",
            not any(violations.values()),
            f"{len(pairs)} ordered pairs of {among}; violations: "
            + ", ".join(f"{name} γ = {g:g} {count}" for (name, g), count in violations.items()),
            _not_schur(),
        ),
        claim(
            "Theorem 10, eq. 14: the leakage is largest at equal counts",
            all(tuple(all_histograms[values.argmax()].tolist()) == most for values in leakages.values()),
            f"{among}, five laws, γ = {GAMMA} and 1: at {most}",
        ),
        claim(
            "Theorem 10, eq. 15: the leakage is smallest where all votes are for one class",
            all(tuple(all_histograms[values.argmin()].tolist()) == least for values in leakages.values()),
            f"{among}, five laws, γ = {GAMMA} and 1: at {least}",
        ),
    ]


def _definition_7() -> Row:
    nine = list(histograms(9, 3))
    return claim(
        "Definition 7: (4, 4, 1) and (5, 2, 2) cannot be compared; (3, 3, 3) is below and (9, 0, 0) above all",
        not majorises((4, 4, 1), (5, 2, 2))
        and not majorises((5, 2, 2), (4, 4, 1))
        and all(majorises(q, (3, 3, 3)) and majorises((9, 0, 0), q) for q in nine),
        f"{len(nine)} histograms of 9 votes on 3 classes",
    )


def _not_schur() -> str:
    """Where Theorem 10 fails; its extremes hold (docs/explanation/pate.md)."""
    wide, even = leakage([[30, 20, 0], [30, 10, 10]], NOISE)
    return (
        f"it is not: (30, 20, 0) majorises (30, 10, 10) and leaks {wide:.5f} against {even:.5f} (Laplace, γ = 0.1), "
        "because its second class is nearer. What remains true: votes moved off the leading class, while it leads, "
        "leak more; that is enough for both extremes, and so for Proposition 12"
    )


def independent() -> list[Row]:
    """Proposition 12, Theorem 13, Corollary 15 and the appendix about B1."""
    all_histograms = np.array(list(histograms(OTHERS, CLASSES)))
    b1, equal = data_independent_bound(CLASSES, GAMMA), float(leakage([[3, 3, 3, 3]], NOISE)[0])
    gammas, sizes = (1e-4, 0.01, 0.1, 1.0, 5.0), (2, 3, 4, 5, 10, 30, 100, 1000)
    by_m = {g: np.array([data_independent_bound(m, g) for m in range(2, 41)]) for g in gammas}
    steps = {g: np.diff(np.exp(b)) for g, b in by_m.items()}
    apart = max(
        abs(printed_b1(m, g) - data_independent_bound(m, g)) / g
        for g in (0.01, 0.1, 1.0, 5.0)
        for m in (2, 3, 4, 10, 30)
    )
    far = {g: g - data_independent_bound(100_000, g) for g in gammas}
    return [
        claim(
            "Proposition 12: log B1 bounds every histogram and is attained at equal counts",
            bool((leakage(all_histograms, NOISE) <= b1 * (1 + ROUNDING)).all())
            and math.isclose(b1, equal, rel_tol=1e-12),
            f"{len(all_histograms)} histograms, γ = {GAMMA}; at (3, 3, 3, 3) {equal:.10f}, log B1 {b1:.10f}",
        ),
        claim(
            "Eqs. 17, 18: B1 as printed",
            apart < 1e-9,
            f"its logarithm differs from ours by {apart:.1e} γ at most, γ from 0.01 to 5, m from 2 to 30",
        ),
        claim(
            "Proposition 12: the bound is non-decreasing in m",
            all((np.diff(b) >= 0).all() for b in by_m.values()),
            f"m = 2 to 40, γ = {', '.join(f'{g:g}' for g in gammas)}",
        ),
        claim(
            "Eq. 77: B1 is concave in m",
            # Differences of differences of numbers near one: rounding alone leaves about 1e-16.
            all((np.diff(s) <= 1e-15).all() for s in steps.values()),
            f"second differences for m = 2 to 40: {max(float(np.diff(s).max()) for s in steps.values()):.1e} at most",
        ),
        claim(
            "Eq. 75: log B1 tends to γ as m grows",
            all(abs(gap) < ROUNDING * g for g, gap in far.items()),
            "γ - log B1 at m = 100,000: " + ", ".join(f"{gap:.1e} (γ = {g:g})" for g, gap in far.items()),
        ),
        claim(
            "Theorem 13: the leakage of a query is at most γ",
            all(data_independent_bound(m, g) <= g * (1 + ROUNDING) for m in sizes for g in gammas),
            f"log B1 <= γ, up to rounding, for m = {', '.join(map(str, sizes))} and the same γ",
        ),
    ]


def dependent() -> list[Row]:
    """Proposition 16, and which bound is the smallest."""
    all_histograms = np.array(list(histograms(40, CLASSES)))
    exact, b2 = leakage(all_histograms, NOISE), data_dependent_bound(all_histograms, GAMMA)
    b1, b3 = data_independent_bound(CLASSES, GAMMA), overtaking_bound(all_histograms, GAMMA)
    better, ratio = b2 < b1, np.minimum(b1, b2) / exact
    closer = np.minimum(b1, np.minimum(b2, b3)) / exact
    lead = np.sort(all_histograms, axis=1)[:, -1] / 40
    return [
        claim(
            "Proposition 16: log B2 bounds every histogram",
            bool((exact <= b2 * (1 + ROUNDING)).all()),
            f"{len(all_histograms)} histograms of 40 votes on {CLASSES} classes, γ = {GAMMA}; min(B1, B2) is at most "
            f"{ratio.max():.3g} times the exact value, with B3 (ours) {closer.max():.3g} times",
        ),
        claim(
            "IV-B: the data-dependent bound is the tighter one where the teachers agree",
            bool(lead[better].min() > np.median(lead[~better])),
            f"it is tighter for {int(better.sum())}; there the first class has {lead[better].min():.0%} of the votes "
            f"or more, elsewhere {np.median(lead[~better]):.0%} in the median",
        ),
    ]


def conclusion() -> list[Row]:
    """The two uses that section V proposes."""
    ladder = np.geomspace(0.02, 5.0, 60)
    (adaptive,) = unsafe_adaptive_gamma_leakage([[53, 50, 0, 0]], 0.02, ladder)
    before, weak = [[59, 40, 0, 0]], Laplace(20.0)
    (refusing,), (plain,) = unsafe_fixed_refusal_leakage(before, weak, 60), leakage(before, weak)
    (noisy,) = threshold_leakage(before, weak, Threshold(60, weak))
    return [
        claim(
            "V: γ adjusted for each query by the data-dependent bound achieves a budget per query",
            bool(adaptive <= 0.02),
            f"budget 0.02 nats, γ the largest of {len(ladder)} from 0.02 to 5 whose exact leakage, below the bound, is "
            f"within it: {adaptive:.3f} nats at v⁻ = (53, 50, 0, 0)",
            "the leakage is not monotone in γ, and a γ chosen by the votes reveals them; here γ is chosen by the "
            "data-independent bound",
        ),
        claim(
            "V: not answering the queries that are expensive improves the privacy",
            bool(refusing <= plain),
            f"v⁻ = (59, 40, 0, 0), γ = 0.05: {plain:.4f} nats answered; refused below 60 votes {refusing:.4f}; refused "
            f"by a noisy comparison {noisy:.4f}",
            "a refusal is an answer too: with a fixed rule it reveals one vote at its boundary, log 2; refusals here "
            "are noisy and accounted",
        ),
    ]


def _noise(law: type[Density], gamma: float) -> Density:
    density: type = law
    noise: Density = density(1 / gamma)
    return noise
