"""[Hannun21] 6.2 and 6.3 on the images: classes, the lowest and the highest η, losses, and IRFIL; figures 2 to 5.

The paper's words ("correlates", "a few", "low") come without numbers: the thresholds here are ours, and each row states
what was measured, so that readers can apply their own.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import beta, spearmanr

from dosimeter import glm
from dosimeter.core.arrays import FloatArray, Index
from dosimeter.reproductions.comparison import Row, claim, weak
from dosimeter.reproductions.hannun21_table import ONE, ImageStudy

EIGHT = 8
TOP = 100
FEW = 5
"""Our reading of "a few iterations"."""
OVERLAP = {"mnist": 24, "cifar": 34}


def extremes(study: ImageStudy) -> tuple[Index, Index]:
    """(8,) rows with the lowest η, lowest first, and (8,) with the highest, highest first: figure 3."""
    order = np.argsort(study.eta, kind="stable")
    return order[:EIGHT], order[::-1][:EIGHT]


def oddness(study: ImageStudy) -> FloatArray:
    """(n,) share of a row's class that is nearer to the class mean, in units of its covariance (twenty components)."""
    X, y = study.split.X, study.split.y
    shares = np.empty(len(y))
    for label in (0, 1):
        rows_of_class = X[y == label]
        deviations = rows_of_class - rows_of_class.mean(axis=0)
        distance = np.einsum("ij,ij->i", deviations, np.linalg.solve(np.cov(rows_of_class.T), deviations.T).T)
        shares[y == label] = np.argsort(np.argsort(distance)) / len(rows_of_class)
    return shares


def class_rows(study: ImageStudy) -> list[Row]:
    """Figure 2: which class has the larger η."""
    zeros, ones = study.of_class(0), study.of_class(1)
    edges = np.histogram_bin_edges(study.eta, 50)
    modes = [float(edges[np.argmax(np.histogram(c, edges)[0])]) for c in (zeros, ones)]
    means = f"class means {zeros.mean():.4f} and {ones.mean():.4f}"
    if study.name == "mnist":
        where = f"highest of 50 bins begins at {modes[0]:.4f} (digit 0) and {modes[1]:.4f} (digit 1)"
        return [
            claim(f"Figure 2 {study.title}: distinct modes, the larger is the digit 0's", modes[0] > modes[1], where),
            claim(f"Figure 2 {study.title}: mean η of the digit 0 is larger", zeros.mean() > ones.mean(), means),
        ]
    return [claim(f"Figure 2 {study.title}: mean η of the cars is larger", ones.mean() > zeros.mean(), means)]


def separation(study: ImageStudy) -> float:
    """Distance of the class means in units of the classes' standard deviation."""
    zeros, ones = study.of_class(0), study.of_class(1)
    return float(abs(zeros.mean() - ones.mean()) / np.sqrt((zeros.var() + ones.var()) / 2))


def separation_rows(mnist: tuple[ImageStudy, ...], cifar: tuple[ImageStudy, ...]) -> list[Row]:
    """6.2: on CIFAR-10 the modes are less distinct, the means still separate."""
    rows = []
    for a, b in zip(mnist, cifar, strict=True):
        near, far = separation(b), separation(a)
        rows.append(
            claim(
                f"Figure 2 {a.setting.label}: modes less distinct on CIFAR-10, means separate",
                0.1 < near < far,
                f"means apart by {far:.2f} class deviations on MNIST, {near:.2f} on CIFAR-10",
            )
        )
    return rows


def extreme_rows(study: ImageStudy) -> list[Row]:
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
            "class means are those of figure 2; Table 1, which the text cites, prints none",
        ),
        claim(
            f"{name}: the largest η are more idiosyncratic",
            odd[high].mean() > max(0.9, odd[low].mean()),
            f"mean share of its class that is nearer to the class mean (in its covariance): {odd[high].mean():.3f} "
            f"for the eight largest (η {', '.join(f'{v:.4f}' for v in study.eta[high])}), {odd[low].mean():.3f} for "
            "the eight smallest",
        ),
    ]
    return [*rows, _typical_row(study, low, odd) if least else _sky_row(study, low)]


def _typical_row(study: ImageStudy, low: Index, odd: FloatArray) -> Row:
    ones = study.raw.X[study.split.y == 1]
    distance = np.linalg.norm(ones - ones.mean(axis=0), axis=1)
    distance_of_low = np.linalg.norm(study.raw.X[low] - ones.mean(axis=0), axis=1)
    share_nearer = np.mean(distance[None, :] < distance_of_low[:, None], axis=1)
    return claim(
        f"Figure 3 {study.title}: the smallest η are written in a very typical manner",
        bool((odd[low] < 0.5).all()),
        "required: each nearer to the mean 1 than half of all 1s. Share that is nearer, in the covariance of the "
        f"twenty components: mean {odd[low].mean():.2f}, most {odd[low].max():.2f}; in plain pixels: mean "
        f"{share_nearer.mean():.2f}, most {share_nearer.max():.2f}",
        "the paper judges by eye: they are single strokes (see the images), but not each of them is nearer to the mean "
        "than half of all 1s, and the two distances disagree about which model's are",
    )


def _sky_row(study: ImageStudy, low: Index) -> Row:
    images = study.raw.X.reshape(-1, 32, 32, 3)
    blue = images[low].mean(axis=(1, 2))
    contrast = images.std(axis=(1, 2)).mean(axis=1)
    return claim(
        f"Figure 3 {study.title}: the smallest η are small planes on a blue sky",
        bool((blue[:, 2] > blue[:, 0]).all() and (contrast[low] < np.median(contrast)).all()),
        f"all eight bluer than red (by {np.min(blue[:, 2] - blue[:, 0]):.2f} at least) and plainer than half of all "
        f"images (contrast at most {contrast[low].max():.3f}, median {np.median(contrast):.3f}); see the images",
    )


def overlap_row(linear: ImageStudy, logistic: ImageStudy) -> Row:
    """6.2: how many of the 100 largest η the two models share."""
    first, second = (set(np.argsort(-study.eta)[:TOP].tolist()) for study in (linear, logistic))
    name = f"6.2 overlap of the 100 largest η, {linear.name}"
    return Row(name, OVERLAP[linear.name], len(first & second), 0.0)


def heuristics(study: ImageStudy) -> dict[str, FloatArray]:
    """(n,) loss and (n,) norm of the gradient of each row, squared loss."""
    r = study.fit.residual
    return {"loss": r**2 / 2, "gradient norm": np.abs(r) * np.linalg.norm(study.split.X, axis=1)}


def heuristic_rows(study: ImageStudy) -> list[Row]:
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
            _warning_row(name, value, above),
        ]
    return [*rows, *_low_loss_rows(study)]


PRECISE, LEVEL = 0.9, 0.99
""""High precision": nine in ten flagged rows are right. "Low recall" is then less than half, at this one-sided level,
with the images as a sample. Stated before the values were computed. A list of fixed length, such as the highest tenth,
cannot have a high recall with any heuristic."""


def _warning_row(name: str, value: FloatArray, above: FloatArray) -> Row:
    """The longest list of the highest values that is right nine times in ten: how many rows does it miss?"""
    order = np.argsort(-value, kind="stable")
    right = np.cumsum(above[order])
    long_enough = np.flatnonzero(right >= PRECISE * np.arange(1, len(value) + 1))
    length = int(long_enough[-1]) + 1 if len(long_enough) else 0
    hits, total = int(right[length - 1]) if length else 0, int(above.sum())
    recall, most = hits / total, float(beta.ppf(LEVEL, hits + 1, total - hits)) if hits < total else 1.0
    low = bool(length and most < 0.5)
    return claim(
        f"6.2: the {name} as a warning has high precision and low recall",
        low,
        f"the longest list of the highest {name} of which {PRECISE:.0%} have an η above the mean has {length} of "
        f"{len(value)} rows and finds {recall:.1%} of all that have (at most {most:.1%} at the level {LEVEL:g}; "
        "required: below half, stated in advance)",
        None if low else "at a precision of nine in ten it finds half of them or more, or no list is that precise",
    )


def _low_loss_rows(study: ImageStudy) -> list[Row]:
    loss = heuristics(study)["loss"]
    worst = float(loss[study.eta <= np.quantile(study.eta, 0.1)].max())
    # η >= |r| √D₁, D₁ the second largest eigenvalue of H⁻² (docs/explanation/secular.md).
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
        f"required: every loss in the lowest tenth of η below the median loss. The highest of them is above {rank:.0%} "
        "of all losses",
        None if rank < 0.5 else "the loss is bounded by a multiple of η², which leaves room above the median loss",
    )
    reason = f"it must hold: loss <= (h η)²/2 with h = {second:.3g}, the second smallest eigenvalue of H"
    return [weak(by_size, reason), by_rank]


def reweighting_rows(study: ImageStudy) -> list[Row]:
    """Figure 5 and 6.3, for one model on one data set."""
    reweighting = study.reweighting
    history = reweighting.history
    ratio = history[:, 1] / history[:, 0]
    (before, half), _, (accuracy_before, _) = study.setting.plain
    (after, _), _, (accuracy_after, _) = study.setting.reweighted
    ours = history[-1, 0] / history[0, 0]
    room = (after + half) / (before - half) - after / before
    accuracy = study.accuracy(reweighting.fit) - study.accuracy(study.fit)
    return [
        claim(
            f"Figure 5 {study.title}: the standard deviation of η falls in each iteration",
            bool((np.diff(history[:, 1]) < 0).all()),
            f"from {history[0, 1]:.3g} to {history[-1, 1]:.2g} in {reweighting.rounds}",
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
            measured="the paper's column is the difference of its printed values",
        ),
        claim(
            f"6.3 {study.title}: without IRFIL the standard deviation is significantly higher",
            history[0, 1] > 100 * history[-1, 1],
            f"{history[0, 1]:.3g} against {history[-1, 1]:.2g}",
        ),
    ]


def fairness_row(study: ImageStudy) -> Row:
    """6.3's conclusion, including the weights' own dependence on the data."""
    leakage = glm.total_leakage(study.reweighting, study.split.X, study.y, ONE)
    eta = leakage.units
    equal = bool(eta.max() < 1.01 * eta.min())
    return claim(
        f"6.3 {study.title}: IRFIL achieves fairness in privacy loss",
        equal,
        f"η with the weights as constants: all equal to {study.reweighting.unevenness:.1e}; through the whole "
        f"pipeline: {eta.mean():.4f} ± {eta.std(ddof=1):.4f}, from {eta.min():.4f} to {eta.max():.4f}",
        "the weights are computed from the data, and eq. 29 takes them as constants; changing a row changes them too. "
        "Equal only if the weights are public constants",
    )
