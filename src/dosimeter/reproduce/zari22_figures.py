"""[Zari22] figures 1 to 6 redrawn: readings in, markup out. Bars are 95 % intervals of the mean over the trials."""

from __future__ import annotations

import numpy as np

from dosimeter.core.notion import FloatArray, Index
from dosimeter.report.charts import Axis, Series, chart
from dosimeter.reproduce.page import Figure
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
        last = float(min(len(one.by_k) for one in found))
        for one in (found[0], found[-1]):
            high = np.full(2, one.chance_95)
            printed.append(Series(f"chance, N = {one.N}", np.array([1.0, last]), high))
        charts.append(chart(f"{name}, largest AUC up to k", Axis(K), Axis(AUC), printed))
        charts.append(chart(f"{name}, AUC at k", Axis(K), Axis(AUC), single))
    caption = (
        "Left: the maximum over k' <= k, as the paper draws it, and what it stays below in 95 % of deals of the names "
        "member and stranger, at the largest k. Right: the AUC at each k by itself."
    )
    return Figure("Figure 1", caption, "".join(charts))


def protected(told: dict[str, Private]) -> Figure:
    """Figure 2, a and b."""
    charts = []
    for name, found in told.items():
        for panel, mechanism in (("a", AG), ("b", VECTOR)):
            series = []
            for epsilon in found.grid(mechanism):
                auc = np.maximum.accumulate(found.at(mechanism, epsilon).auc, axis=1).T
                at = _some(len(auc))
                series.append(
                    Series(
                        f"ε = {epsilon:g}", at.astype(np.float64) + 1, auc[at].mean(axis=1), spread=_halves(auc[at])
                    ),
                )
            band = np.full(2, found.chance_95)
            series.append(Series("chance (95 %)", np.array([1.0, float(found.study.d)]), band))
            charts.append(chart(f"({panel}) {name}, {mechanism}", Axis(K), Axis("largest AUC up to k"), series))
    return Figure("Figure 2", "δ = 1/N. Chance is about the largest AUC over all k.", "".join(charts))


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
    """Figure 5, with the control that the paper has not."""
    charts = []
    for name, found in told.items():
        series = []
        for mechanism in (*LAPLACE, AG, OURS):
            grid = found.grid(mechanism)
            energy = [found.at(mechanism, e).energy for e in grid]
            mean = np.array([q.mean() for q in energy])
            series.append(Series(mechanism, np.array(grid), mean, spread=np.array([half_interval(q) for q in energy])))
        ends = np.array([min(found.grid(AG)), max(found.grid(NAIVE))])
        series.append(Series("directions at random", ends, np.full(2, found.control.mean())))
        charts.append(chart(f"{name}, k = {found.k.mean():g}", Axis(EPSILON, log=True), Axis(Q), series))
    caption = "k is the least that captures 90 % exactly. Analyze Gauss as printed; ours is proved for a replaced row."
    return Figure("Figure 5", caption, "".join(charts))


def trade(told: dict[str, Private]) -> Figure:
    """Figure 6."""
    charts = []
    for name, found in told.items():
        series = []
        for mechanism in (*LAPLACE, AG, OURS):
            seen = [found.at(mechanism, e) for e in found.grid(mechanism)]
            series.append(Series(mechanism, np.array([o.mean for o in seen]), np.array([o.q for o in seen])))
        low, high = float(found.chance.mean()), float(found.exact.mean())
        control = np.full(2, found.control.mean())
        series.append(Series("directions at random", np.array([low, high]), control))
        charts.append(chart(name, Axis(BEST), Axis(Q), series))
    return Figure(
        "Figure 6", "One point an ε; the random directions stand at the q that says nothing.", "".join(charts)
    )
