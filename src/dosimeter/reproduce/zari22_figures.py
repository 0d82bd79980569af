"""[Zari22] figures 1 to 6 redrawn: readings in, markup out. Bars are 95 % intervals of the mean over the trials."""

from __future__ import annotations

import numpy as np

from dosimeter.core.arrays import FloatArray, Index
from dosimeter.report.charts import Axis, Series, chart
from dosimeter.reproduce.html_page import Figure
from dosimeter.reproduce.zari22_attack import Curve, half_interval
from dosimeter.reproduce.zari22_private import AG, LAPLACE, NAIVE, OURS, VECTOR, Private
from dosimeter.reproduce.zari22_scales import ALPHAS, DELTA, EPSILONS, boundary, naive_is_less

K, AUC, BEST, EPSILON, Q = "k", "AUC", "largest AUC over k", "ε", "captured energy q"
POINTS = 40
"""Of the many k of a picture, the ones that are drawn."""


def _some(r: int) -> Index:
    return np.unique(np.linspace(0, r - 1, min(r, POINTS)).astype(np.intp))


def _halves(values: FloatArray) -> FloatArray:
    """(r,) half intervals of rows (r, trials)."""
    return np.array([half_interval(row) for row in values])


def attack(told: dict[str, tuple[Curve, ...]]) -> Figure:
    """Figure 1: as printed (the maximum over k' <= k), the AUC at each k by itself, and what chance gives."""
    charts = []
    for name, found in told.items():
        printed, single = [], []
        for one in found:
            auc = one.by_k
            at = _some(len(auc))
            running = np.maximum.accumulate(auc, axis=0)
            x = at.astype(np.float64) + 1
            printed.append(Series(f"N = {one.N}", x, running[at].mean(axis=1), spread=_halves(running[at])))
            single.append(Series(f"N = {one.N}", x, auc[at].mean(axis=1), spread=_halves(auc[at])))
        main = next(one for one in found if one.study.N == one.N)
        ends = np.array([1.0, float(min(len(one.by_k) for one in found))])
        printed.append(Series(f"chance, N = {main.N}", ends, np.full(2, main.chance_95)))
        charts.append(chart(f"{name}, largest AUC up to k", Axis(K), Axis(AUC), printed))
        charts.append(chart(f"{name}, AUC at k", Axis(K), Axis(AUC), single))
    caption = (
        "Left: the maximum over k' <= k, as the paper draws it, and what it stays below in 95 % of deals of the names "
        "member and stranger, over all k. Right: the AUC at each k by itself."
    )
    return Figure("Figure 1", caption, "".join(charts))


SHOWN = (1e2, 1e4, 1e7)
"""ε of figure 2b that are drawn, those that 5.3 speaks of; figure 3 has them all."""


def protected(told: dict[str, Private], plain: dict[str, tuple[Curve, ...]]) -> Figure:
    """Figure 2, a and b; plain: the attack on the exact components, of which the N of section 5 is drawn."""
    charts = []
    for name, found in told.items():
        exact = next(one for one in plain[name] if one.N == found.study.N).by_k
        band = Series("chance (95 %)", np.array([1.0, float(found.study.d)]), np.full(2, found.chance_95))
        for panel, mechanism, some in (("a", AG, found.grid(AG)), ("b", VECTOR, SHOWN)):
            series = [_up_to_k(f"ε = {e:g}", found.at(mechanism, e).auc.T) for e in some]
            series += [_up_to_k("exact components", exact), band]
            charts.append(chart(f"({panel}) {name}, {mechanism}", Axis(K), Axis("largest AUC up to k"), series))
    return Figure("Figure 2", "δ = 1/N. Chance is about the largest AUC over all k.", "".join(charts))


def _up_to_k(name: str, auc: FloatArray) -> Series:
    """The maximum over k' <= k of AUCs (r, trials)."""
    at, running = _some(len(auc)), np.maximum.accumulate(auc, axis=0)
    return Series(name, at.astype(np.float64) + 1, running[at].mean(axis=1), spread=_halves(running[at]))


def laplace(told: dict[str, Private]) -> Figure:
    """Figure 3."""
    charts = []
    for name, found in told.items():
        series = [_over_epsilon(found, mechanism) for mechanism in LAPLACE]
        grid = found.grid(NAIVE)
        ends = np.array([grid[0], grid[-1]])
        series.append(Series("exact components (ε = ∞)", ends, np.full(2, found.exact.mean())))
        series.append(Series("chance (95 %)", ends, np.full(2, found.chance_95)))
        charts.append(chart(name, Axis(EPSILON, log=True), Axis(BEST), series))
    return Figure("Figure 3", "The adversary sees all components and picks the best k afterwards.", "".join(charts))


def _over_epsilon(found: Private, mechanism: str) -> Series:
    told = [found.at(mechanism, e) for e in found.grid(mechanism)]
    return Series(
        mechanism,
        np.array(found.grid(mechanism)),
        np.array([o.mean for o in told]),
        spread=np.array([o.half for o in told]),
    )


def region() -> Figure:
    """Figure 4: the points (ε, α) where naive composition adds less noise, and the curve by formula."""
    less = naive_is_less()
    alpha, epsilon = np.array(ALPHAS, dtype=np.float64), np.array(EPSILONS)
    series = []
    for name, where in (("naive adds less", less), ("advanced adds less", ~less)):
        i, j = np.nonzero(where)
        series.append(Series(name, epsilon[j], alpha[i], "points"))
    star = boundary()
    series.append(Series("ε* = α ln(2 - √(2 ln(1/δ)/α))", star[star > 0], alpha[star > 0]))
    markup = chart("Less noise", Axis(EPSILON, log=True), Axis("α", log=True), series)
    return Figure("Figure 4", f"δ = {DELTA:g}; points from eq. 2 solved, the line by formula.", markup)


def utility(told: dict[str, Private]) -> Figure:
    """Figure 5 with the control that the paper has not, and the proved Gaussian scale beside the printed one."""
    charts = []
    for name, found in told.items():
        for title, mechanisms in ((name, (*LAPLACE, AG)), (f"{name}, Gaussian noise", (AG, OURS))):
            series = [_energy(found, mechanism) for mechanism in mechanisms]
            ends = np.array([series[-1].x[0], max(one.x[-1] for one in series)])
            series.append(Series("directions at random", ends, np.full(2, found.control.mean())))
            charts.append(chart(f"{title}, k = {found.k.mean():g}", Axis(EPSILON, log=True), Axis(Q), series))
    caption = "k is the least that captures 90 % exactly. Analyze Gauss as printed; ours is proved for a replaced row."
    return Figure("Figure 5", caption, "".join(charts))


def _energy(found: Private, mechanism: str) -> Series:
    grid = found.grid(mechanism)
    energy = [found.at(mechanism, e).energy for e in grid]
    half = np.array([half_interval(q) for q in energy])
    return Series(mechanism, np.array(grid), np.array([q.mean() for q in energy]), spread=half)


def trade(told: dict[str, Private]) -> Figure:
    """Figure 6."""
    charts = []
    for name, found in told.items():
        series = []
        for mechanism in (*LAPLACE, AG):
            seen = [found.at(mechanism, e) for e in found.grid(mechanism)]
            series.append(Series(mechanism, np.array([o.mean for o in seen]), np.array([o.q for o in seen])))
        low, high = float(found.chance.mean()), float(found.exact.mean())
        control = np.full(2, found.control.mean())
        series.append(Series("directions at random", np.array([low, high]), control))
        charts.append(chart(name, Axis(BEST), Axis(Q), series))
    return Figure(
        "Figure 6", "One point an ε; the random directions stand at the q that says nothing.", "".join(charts)
    )
