"""[Hannun21] 6.2 and 6.3 on the images: classes, the lowest and the highest η, losses, and IRFIL; figures 2 to 5.

The paper's words ("correlates", "a few", "low") have no numbers: the thresholds here are ours, and each row carries
what was measured so that a reader may set his own.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import beta, spearmanr

from dosimeter import glm
from dosimeter.core.arrays import FloatArray, Index
from dosimeter.reproduce.comparison import Row, claim, weak
from dosimeter.reproduce.hannun21_table import ONE, Study

EIGHT = 8
TOP = 100
FEW = 5
"""What "a few iterations" is taken to be."""
OVERLAP = {"mnist": 24, "cifar": 34}


def extremes(study: Study) -> tuple[Index, Index]:
    """(8,) rows with the lowest η, lowest first, and (8,) with the highest, highest first: figure 3."""
    order = np.argsort(study.eta, kind="stable")
    return order[:EIGHT], order[::-1][:EIGHT]


def oddness(study: Study) -> FloatArray:
    """(n,) share of the own class that lies nearer to its mean, in units of its covariance (twenty components)."""
    X, y = study.split.X, study.split.y
    out = np.empty(len(y))
    for label in (0, 1):
        mine = X[y == label]
        away = mine - mine.mean(axis=0)
        distance = np.einsum("ij,ij->i", away, np.linalg.solve(np.cov(mine.T), away.T).T)
        out[y == label] = np.argsort(np.argsort(distance)) / len(mine)
    return out


def class_rows(study: Study) -> list[Row]:
    """Figure 2: which class has the larger η."""
    zero, one = study.of_class(0), study.of_class(1)
    edges = np.histogram_bin_edges(study.eta, 50)
    modes = [float(edges[np.argmax(np.histogram(c, edges)[0])]) for c in (zero, one)]
    means = f"class means {zero.mean():.4f} and {one.mean():.4f}"
    if study.name == "mnist":
        where = f"highest of 50 bins begins at {modes[0]:.4f} (digit 0) and {modes[1]:.4f} (digit 1)"
        return [
            claim(f"Figure 2 {study.title}: distinct modes, the larger is the digit 0's", modes[0] > modes[1], where),
            claim(f"Figure 2 {study.title}: mean η of the digit 0 is larger", zero.mean() > one.mean(), means),
        ]
    return [claim(f"Figure 2 {study.title}: mean η of the cars is larger", one.mean() > zero.mean(), means)]


def separation(study: Study) -> float:
    """Distance of the class means in units of the classes' standard deviation."""
    zero, one = study.of_class(0), study.of_class(1)
    return float(abs(zero.mean() - one.mean()) / np.sqrt((zero.var() + one.var()) / 2))


def separation_rows(mnist: tuple[Study, ...], cifar: tuple[Study, ...]) -> list[Row]:
    """6.2: on CIFAR-10 the modes are not as distinct, the means still separate."""
    out = []
    for a, b in zip(mnist, cifar, strict=True):
        near, far = separation(b), separation(a)
        out.append(
            claim(
                f"Figure 2 {a.setting.label}: modes less distinct on CIFAR-10, means separate",
                0.1 < near < far,
                f"means apart by {far:.2f} class deviations on MNIST, {near:.2f} on CIFAR-10",
            )
        )
    return out


def extreme_rows(study: Study) -> list[Row]:
    """Figure 3: what the eight lowest and the eight highest are."""
    low, high = extremes(study)
    y, odd = study.split.y, oddness(study)
    least = 1 if study.name == "mnist" else 0
    lower_class = int(study.of_class(1).mean() < study.of_class(0).mean())
    name = f"Figure 3 {study.title}"
    kind = "the digit 1" if least else "planes"
    figures = f"η {', '.join(f'{v:.4f}' for v in study.eta[low])}"
    rows = [
        claim(f"{name}: the eight smallest η are {kind}", bool((y[low] == least).all()), figures),
        claim(
            f"{name}: the smallest η are of the class with the smaller mean",
            bool((y[low] == lower_class).all()),
            "class means are those of figure 2; Table 1, which the text names, prints none",
        ),
        claim(
            f"{name}: the largest η are more idiosyncratic",
            odd[high].mean() > max(0.9, odd[low].mean()),
            f"mean share of the own class that is nearer to the class mean (in its covariance): {odd[high].mean():.3f} "
            f"for the eight largest (η {', '.join(f'{v:.4f}' for v in study.eta[high])}), {odd[low].mean():.3f} for "
            "the eight smallest",
        ),
    ]
    return [*rows, _typical(study, low, odd) if least else _sky(study, low)]


def _typical(study: Study, low: Index, odd: FloatArray) -> Row:
    ones = study.raw.X[study.split.y == 1]
    distance = np.linalg.norm(ones - ones.mean(axis=0), axis=1)
    mine = np.linalg.norm(study.raw.X[low] - ones.mean(axis=0), axis=1)
    plain = np.mean(distance[None, :] < mine[:, None], axis=1)
    return claim(
        f"Figure 3 {study.title}: the smallest η are written in a very typical manner",
        bool((odd[low] < 0.5).all()),
        "asked: each nearer to the mean 1 than half of all 1s. Share that is nearer, in the covariance of the twenty "
        f"components: mean {odd[low].mean():.2f}, most {odd[low].max():.2f}; in plain pixels: mean {plain.mean():.2f}, "
        f"most {plain.max():.2f}",
        "the paper judges by eye: single strokes they are (see the pictures), but not each of them is nearer to the "
        "mean than half of all 1s, and the two distances disagree about which model's are",
    )


def _sky(study: Study, low: Index) -> Row:
    images = study.raw.X.reshape(-1, 32, 32, 3)
    blue = images[low].mean(axis=(1, 2))
    contrast = images.std(axis=(1, 2)).mean(axis=1)
    return claim(
        f"Figure 3 {study.title}: the smallest η are small planes on a blue sky",
        bool((blue[:, 2] > blue[:, 0]).all() and (contrast[low] < np.median(contrast)).all()),
        f"all eight bluer than red (by {np.min(blue[:, 2] - blue[:, 0]):.2f} at least) and plainer than half of all "
        f"images (contrast at most {contrast[low].max():.3f}, median {np.median(contrast):.3f}); see the pictures",
    )


def overlap_row(linear: Study, logistic: Study) -> Row:
    """6.2: how many of the 100 largest η the two models share."""
    first, second = (set(np.argsort(-study.eta)[:TOP].tolist()) for study in (linear, logistic))
    name = f"6.2 overlap of the 100 largest η, {linear.name}"
    return Row(name, OVERLAP[linear.name], len(first & second), 0.0)


def heuristics(study: Study) -> dict[str, FloatArray]:
    """(n,) loss and (n,) norm of the gradient of each row, squared loss."""
    r = study.fit.residual
    return {"loss": r**2 / 2, "gradient norm": np.abs(r) * np.linalg.norm(study.split.X, axis=1)}


def heuristic_rows(study: Study) -> list[Row]:
    """Figure 4 and the text under it, on all rows (the paper draws 2,000 of them)."""
    eta, rows = study.eta, []
    top = eta >= np.quantile(eta, 0.9)
    above = eta > eta.mean()
    for name, value in heuristics(study).items():
        pearson, rank = float(np.corrcoef(value, eta)[0, 1]), float(spearmanr(value, eta)[0])
        tenths = [int(top[part].sum()) for part in np.array_split(np.argsort(value, kind="stable"), 10)]
        rows += [
            claim(
                f"Figure 4: η correlates with the {name}",
                min(pearson, rank) > 0.25,
                f"correlation {pearson:.3f}, of ranks {rank:.3f}",
            ),
            claim(
                f"Figure 4: high η exist throughout the range of the {name}",
                min(tenths) > 0,
                f"rows of the highest tenth of η in each tenth of the {name}: {tenths}",
            ),
            _warning(name, value, above),
        ]
    return [*rows, *_low_loss(study)]


PRECISE, LEVEL = 0.9, 0.99
"""For "high precision": of the rows that are warned of nine in ten are right. "Low recall" is then less than half, at
this one-sided level, the images taken as a sample. Stated before the figures were computed. A list of fixed length, as
the highest tenth, cannot have a high recall whatever the heuristic is."""


def _warning(name: str, value: FloatArray, above: FloatArray) -> Row:
    """The longest list of the highest values that is right nine times in ten: how many does it miss?"""
    order = np.argsort(-value, kind="stable")
    right = np.cumsum(above[order])
    long_enough = np.flatnonzero(right >= PRECISE * np.arange(1, len(value) + 1))
    length = int(long_enough[-1]) + 1 if len(long_enough) else 0
    found, all_ = int(right[length - 1]) if length else 0, int(above.sum())
    recall, most = found / all_, float(beta.ppf(LEVEL, found + 1, all_ - found)) if found < all_ else 1.0
    low = bool(length and most < 0.5)
    return claim(
        f"6.2: the {name} as a warning has high precision and low recall",
        low,
        f"the longest list of the highest {name} of which {PRECISE:.0%} have an η above the mean has {length} of "
        f"{len(value)} rows and finds {recall:.1%} of all that have (at most {most:.1%} at the level {LEVEL:g}; asked: "
        "below half, stated before the look)",
        None if low else "at a precision of nine in ten it does find half of them or more, or no list is so precise",
    )


def _low_loss(study: Study) -> list[Row]:
    loss = heuristics(study)["loss"]
    worst = float(loss[study.eta <= np.quantile(study.eta, 0.1)].max())
    # η >= |r| √D₁, D₁ the second largest eigenvalue of H⁻² (docs/secular.md).
    second = np.sort(np.linalg.eigvalsh(study.split.X.T @ study.split.X))[1]
    bound = bool((study.eta * (1 + 1e-9) >= np.abs(study.fit.residual) / second).all())
    rank = float(np.mean(loss < worst))
    by_size = claim(
        "Figure 4: a low η invariably implies a low loss",
        bound and worst < 0.1 * loss.max(),
        f"highest loss in the lowest tenth of η: {worst:.4f}, {worst / loss.max():.1%} of the largest",
    )
    by_rank = claim(
        "Figure 4: a low η invariably implies a low loss, by rank",
        rank < 0.5,
        f"asked: every loss in the lowest tenth of η below the median loss. The highest of them is above {rank:.0%} of "
        "all losses",
        None if rank < 0.5 else "the loss is bounded by a multiple of η², which leaves room above the median loss",
    )
    reason = f"it must hold: loss <= (h η)²/2 with h = {second:.3g}, the second smallest eigenvalue of H"
    return [weak(by_size, reason), by_rank]


def reweighting_rows(study: Study) -> list[Row]:
    """Figure 5 and 6.3, for one model on one set."""
    told = study.reweighting
    history = told.history
    ratio = history[:, 1] / history[:, 0]
    (before, half), _, (accuracy_before, _) = study.setting.plain
    (after, _), _, (accuracy_after, _) = study.setting.reweighted
    ours = history[-1, 0] / history[0, 0]
    room = (after + half) / (before - half) - after / before
    accuracy = study.accuracy(told.fit) - study.accuracy(study.fit)
    return [
        claim(
            f"Figure 5 {study.title}: the standard deviation of η falls in each iteration",
            bool((np.diff(history[:, 1]) < 0).all()),
            f"from {history[0, 1]:.3g} to {history[-1, 1]:.2g} in {told.rounds}",
        ),
        claim(
            f"Figure 5 {study.title}: all η reach the same value after a few iterations",
            ratio[FEW] < 0.02,
            f"standard deviation over mean: {ratio[0]:.3f} at 0, {ratio[2]:.3f} at 2, {ratio[FEW]:.4f} at {FEW}",
        ),
        Row(
            f"6.3 {study.title}: the mean η is not especially sensitive to IRFIL (after/before)",
            after / before,
            float(ours),
            room,
            measured=f"a change by {ours - 1:+.1%}: the paper's column is the quotient of its printed means",
        ),
        Row(
            f"6.3 {study.title}: nor is the accuracy (points)",
            accuracy_after - accuracy_before,
            accuracy,
            0.55 if accuracy_before == 100.0 else 0.1,
            measured="the paper's column is the difference of its printed figures",
        ),
        claim(
            f"6.3 {study.title}: without IRFIL the standard deviation is significantly higher",
            history[0, 1] > 100 * history[-1, 1],
            f"{history[0, 1]:.3g} against {history[-1, 1]:.2g}",
        ),
    ]


def fairness_row(study: Study) -> Row:
    """6.3's conclusion, with the weights' own dependence on the data counted."""
    told = glm.honest_leakage(study.reweighting, study.split.X, study.y, ONE)
    true = told.units
    equal = bool(true.max() < 1.01 * true.min())
    return claim(
        f"6.3 {study.title}: IRFIL achieves fairness in privacy loss",
        equal,
        f"η with the weights as constants: all equal to {study.reweighting.unevenness:.1e}; through the whole "
        f"pipeline: {true.mean():.4f} ± {true.std(ddof=1):.4f}, from {true.min():.4f} to {true.max():.4f}",
        "the weights are computed from the data, and eq. 29 takes them as constants; who changes a row changes them "
        "too. Equal only for somebody to whom the weights are public constants",
    )
