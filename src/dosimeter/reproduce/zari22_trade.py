"""[Zari22] figure 6 in numbers: captured energy against the attack, mechanism by mechanism.

The paper prints no number there; its caption says that each mechanism poses a trade-off. Ours for that: from the least
ε to the largest both the AUC and q rise beyond the 95 % interval of the difference, trial by trial. The AUC at which
mechanisms are compared is the one that chance stays below in 95 % of deals. Both were set before the rows were looked
at; figure 6 itself had been drawn.
"""

from __future__ import annotations

from dosimeter.reproduce.comparison import Row, claim
from dosimeter.reproduce.zari22_attack import above, half_interval
from dosimeter.reproduce.zari22_private import AG, LAPLACE, Outcome, Private


def rows(told: dict[str, Private]) -> list[Row]:
    """One for each table and mechanism."""
    return [_row(found, mechanism) for found in told.values() for mechanism in (*LAPLACE, AG)]


def quiet(found: Private, mechanism: str, level: float) -> dict[float, Outcome]:
    """By ε, the outcomes whose mean AUC is at most the level."""
    some = {e: found.at(mechanism, e) for e in found.grid(mechanism)}
    return {e: one for e, one in some.items() if one.mean <= level}


def _row(found: Private, mechanism: str) -> Row:
    grid = found.grid(mechanism)
    first, last = found.at(mechanism, grid[0]), found.at(mechanism, grid[-1])
    costs, gains = above(last.maxima, first.maxima), above(last.energy, first.energy)
    points = ", ".join(f"{_point(found.at(mechanism, e))} at ε = {e:g}" for e in grid)
    measured = f"AUC and q: {points}; {_matched(found, mechanism)}"
    name = f"figure 6 {found.study.name}, {mechanism}: more utility comes with a more successful attack"
    return claim(name, costs and gains, measured, None if costs and gains else _why(costs, gains))


def _point(one: Outcome) -> str:
    return f"{one.mean:.3f} ± {one.half:.3f} and {one.q:.3f} ± {half_interval(one.energy):.3f}"


def _matched(found: Private, mechanism: str) -> str:
    level, control = found.chance_95, float(found.control.mean())
    some = quiet(found, mechanism, level)
    if not some:
        return f"at every ε the AUC is above {level:.3f}, what chance stays below"
    best = max(some, key=lambda e: some[e].q)
    q = f"q = {some[best].q:.3f} (ε = {best:g})"
    return f"at an AUC of at most {level:.3f}, as by chance: {q}; at random {control:.3f}"


def _why(costs: bool, gains: bool) -> str:
    if gains:
        return "q rises; that the attack does so too is not beyond the interval of these trials at any ε of this range"
    if costs:
        return "the attack rises; that q does so too is not beyond the interval: random directions capture much already"
    return "neither the attack nor q rises beyond the interval of these trials in this range of ε"
