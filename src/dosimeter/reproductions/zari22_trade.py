"""[Zari22] figure 6 in numbers: captured energy against the attack, for each mechanism.

The paper prints no number there; its caption says that each mechanism poses a trade-off. Our criterion: from the least
ε to the largest, both the AUC and q rise beyond the 95 % interval of the difference, paired by trial. Mechanisms are
compared at the AUC that chance stays below in 95 % of deals. Both were set before the rows were seen; figure 6 itself
had been drawn.
"""

from __future__ import annotations

from dosimeter.reproductions.comparison import Row, claim
from dosimeter.reproductions.zari22_attack import above, half_interval
from dosimeter.reproductions.zari22_private import AG, LAPLACE, Outcome, PrivateStudy


def rows(private_studies: dict[str, PrivateStudy]) -> list[Row]:
    """One row for each table and mechanism."""
    return [_row(private, mechanism) for private in private_studies.values() for mechanism in (*LAPLACE, AG)]


def outcomes_at_chance(private: PrivateStudy, mechanism: str, level: float) -> dict[float, Outcome]:
    """By ε, the outcomes whose mean AUC is at most the level."""
    outcomes = {e: private.outcome(mechanism, e) for e in private.grid(mechanism)}
    return {e: outcome for e, outcome in outcomes.items() if outcome.mean <= level}


def _row(private: PrivateStudy, mechanism: str) -> Row:
    grid = private.grid(mechanism)
    first, last = private.outcome(mechanism, grid[0]), private.outcome(mechanism, grid[-1])
    costs, gains = above(last.maxima, first.maxima), above(last.energy, first.energy)
    points = ", ".join(f"{_point(private.outcome(mechanism, e))} at ε = {e:g}" for e in grid)
    measured = f"AUC and q: {points}; {_matched(private, mechanism)}"
    name = f"figure 6 {private.study.name}, {mechanism}: more utility comes with a more successful attack"
    return claim(name, costs and gains, measured, None if costs and gains else _why(costs, gains))


def _point(outcome: Outcome) -> str:
    return f"{outcome.mean:.3f} ± {outcome.half:.3f} and {outcome.q:.3f} ± {half_interval(outcome.energy):.3f}"


def _matched(private: PrivateStudy, mechanism: str) -> str:
    level, control = private.chance_95, float(private.control.mean())
    outcomes = outcomes_at_chance(private, mechanism, level)
    if not outcomes:
        return f"at every ε the AUC is above {level:.3f}, the level of chance"
    best = max(outcomes, key=lambda e: outcomes[e].q)
    q = f"q = {outcomes[best].q:.3f} (ε = {best:g})"
    return f"at an AUC of at most {level:.3f}, the level of chance: {q}; at random {control:.3f}"


def _why(costs: bool, gains: bool) -> str:
    if gains:
        return "q rises; at no ε of this range does the attack rise beyond the interval of these trials"
    if costs:
        return "the attack rises; q does not rise beyond the interval: random directions already capture much"
    return "neither the attack nor q rises beyond the interval of these trials in this range of ε"
