"""[Geyer19] Table 1 as arithmetic: the noise its rounds need, the rounds a noise allows, and claims about them.

This needs no data. The paper prints neither σ nor m_t; both are solved for, with m = CC/CR in every round.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from dosimeter.core.errors import CannotMeasure
from dosimeter.federated import accountant
from dosimeter.federated.accountant import WORKING_GRID, Spend
from dosimeter.federated.budget import PrivacyBudget, rounds_allowed
from dosimeter.federated.client_sampling import FixedSizeSampling, PoissonSampling
from dosimeter.reproductions import geyer19_moments as moments
from dosimeter.reproductions.comparison import Row, claim
from dosimeter.reproductions.geyer19_training import EPSILON, least_noise

M_ALLOWED = {100: 30, 1000: 100, 10_000: 300}
"""Clients per round in the authors' program, with σ = 1."""


@dataclass(frozen=True)
class PrintedLine:
    """One line of Table 1 with privacy."""

    clients: int
    delta: float
    accuracy: float
    rounds: int
    communication: int

    @property
    def m(self) -> float:
        """CC/CR; need not be whole."""
        return self.communication / self.rounds

    @property
    def cohort(self) -> PoissonSampling:
        """What the moments accountant assumes."""
        return PoissonSampling(self.clients)


TABLE = (
    PrintedLine(100, 1e-3, 0.78, 11, 550),
    PrintedLine(1000, 1e-5, 0.92, 54, 11_880),
    PrintedLine(10_000, 1e-6, 0.96, 412, 209_500),
)
NOT_PRIVATE = (0.97, 380, 38_000)
"""ACC, CR, CC of the line without privacy, K = 100."""


def rows() -> list[Row]:
    """All rows of the arithmetic."""
    return [
        *(row for line in TABLE for row in _line(line)),
        *(_rounds_of_program(line) for line in TABLE),
        *_claims(),
    ]


def _line(line: PrintedLine) -> list[Row]:
    name = f"Table 1, K = {line.clients}"
    sigma = paper_sigma(line)
    spent = (Spend(line.m, sigma, line.rounds),)
    tight = accountant.epsilon(spent, line.cohort, line.delta, grid=WORKING_GRID)
    renyi = least_by_renyi(line)
    ours = least_noise(line.clients, line.m, line.rounds, line.delta)
    return [
        Row(
            f"{name}: rounds by the moments accountant at m = CC/CR and the least σ for them",
            line.rounds,
            moments.rounds_allowed(line.cohort, line.m, sigma, EPSILON, line.delta),
            0.0,
            measured=f"σ = {sigma:.4g}, which the paper does not print; {renyi:.3f} would suffice by Rényi orders, "
            f"{ours:.3f} by privacy loss distributions; at σ the latter give ε = {tight:.3g} instead of 8",
        ),
        claim(f"{name}: δ is below 1/K", line.delta < 1 / line.clients, f"{line.delta:g} and {1 / line.clients:g}"),
        _as_written(line, sigma),
    ]


def _as_written(line: PrintedLine, sigma: float) -> Row:
    """Cost of exactly m of K clients when one is replaced by another: the sampling of Algorithm 1."""
    m = round(line.m)
    try:
        spent = (Spend(m, sigma, line.rounds),)
        epsilon = accountant.epsilon(spent, FixedSizeSampling(line.clients), line.delta, grid=WORKING_GRID)
        outcome = f"ε = {epsilon:.3g} at δ = {line.delta:g}"
    except CannotMeasure as why:
        epsilon, outcome = float("inf"), str(why)
    return claim(
        f"Table 1, K = {line.clients}: ε = 8 for Algorithm 1 as written",
        epsilon <= EPSILON,
        f"σ = {sigma:.4g}, {line.rounds} rounds of exactly {m} clients, one replaced by another: {outcome} (an upper "
        "bound), without the cost of the median",
        "the accountant assumes independent sampling; with a fixed number the sum moves by 2S, and the clip is the "
        "median of the norms, taken without noise: the printed value is unaccounted",
    )


def _rounds_of_program(line: PrintedLine) -> Row:
    """The authors' program: σ = 1 and its own m, by three accountants."""
    m, budget = M_ALLOWED[line.clients], PrivacyBudget(EPSILON, line.delta)
    by_moments = moments.rounds_allowed(line.cohort, m, 1.0, EPSILON, line.delta)
    by_loss = rounds_allowed(line.cohort, m, 1.0, budget)
    return claim(
        f"K = {line.clients}, σ = 1, m = {m}: the moments accountant is on the safe side of a tight one",
        by_moments <= by_loss,
        f"{by_moments} rounds by moments, {rounds_by_renyi(line.cohort, m, budget)} by Rényi orders, {by_loss} by "
        "privacy loss distributions; all for independent sampling and one client more or fewer",
    )


@lru_cache(maxsize=8)
def paper_sigma(line: PrintedLine) -> float:
    """The least σ for which the moments accountant allows the printed rounds."""
    return moments.noise_needed(line.cohort, line.m, line.rounds, EPSILON, line.delta)


def least_by_renyi(line: PrintedLine) -> float:
    """The same by Rényi orders, to three decimals, rounded up."""
    low, high = 500, 4000
    while low < high:
        middle = (low + high) // 2
        spent = (Spend(line.m, middle / 1e3, line.rounds),)
        if accountant.delta_by_renyi(spent, line.cohort, EPSILON) <= line.delta:
            high = middle
        else:
            low = middle + 1
    return high / 1e3


def rounds_by_renyi(cohort: PoissonSampling, m: float, budget: PrivacyBudget) -> int:
    """The largest number of rounds by Rényi orders, σ = 1."""
    low, high = 0, 1 << 14
    while low < high:
        middle = (low + high + 1) // 2
        if accountant.delta_by_renyi((Spend(m, 1.0, middle),), cohort, budget.epsilon) <= budget.delta:
            low = middle
        else:
            high = middle - 1
    return low


SIZES = (220, 150, 100, 50)
"""m of the comparison at equal "distortion", K = 1000, 54 rounds."""


def _claims() -> list[Row]:
    line = TABLE[1]
    sigma = 1.251

    def cost(m: float, z: float) -> float:
        return accountant.epsilon((Spend(m, z, line.rounds),), line.cohort, line.delta, grid=WORKING_GRID)

    at_equal_ratio = [cost(m, sigma * (m / SIZES[0]) ** 0.5) for m in SIZES]
    at_equal_noise = [cost(m, sigma * m / SIZES[0]) for m in SIZES]
    return [
        claim(
            "3: the higher σ and the lower m, the higher the privacy loss",
            cost(110, 2 * sigma) > cost(220, sigma),
            f"K = 1000, 54 rounds, δ = 1e-5: ε = {cost(220, sigma):.3g} at σ = {sigma}, m = 220; "
            f"{cost(110, 2 * sigma):.3g} at twice the σ and half the m",
            "reversed: more noise and fewer clients cost less",
        ),
        Row(
            "3: variance of the averaged noise at S = σ = 1, m = 100",
            1 / 100,
            1 / 100**2,
            0.0,
            "the sum has noise S²σ², the average S²σ²/m²; σ²/m is neither. At equal σ²/m the standard deviation of the "
            "average is proportional to 1/√m",
        ),
        claim(
            "3: at the same σ²/m privacy loss is smaller for σ and m both small",
            all(b < a for a, b in pairwise(at_equal_ratio)),
            f"K = 1000, 54 rounds, δ = 1e-5, m = {', '.join(map(str, SIZES))}: ε = {_join(at_equal_ratio)}; at the "
            f"same σ/m, which is the same noise on the average: {_join(at_equal_noise)}",
            "it falls slightly and then rises; and σ²/m is not the distortion: at the same σ/m it rises throughout",
        ),
    ]


def _join(values: list[float]) -> str:
    return ", ".join(f"{v:.3g}" for v in values)
