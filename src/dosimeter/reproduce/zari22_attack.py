"""[Zari22] figure 1 and section 4.3: the attack on exact components over N and k, beside what chance gives.

Where the paper's words have no number the threshold is ours. Those here were written down before the figures were
looked at, except that earlier notes of ours already held the largest AUC of each curve, and that "increases with k" is
judged by its first k, its last and the peak between them: step by step, three trials could not refute it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from dosimeter import pca
from dosimeter.core.arrays import FloatArray
from dosimeter.pca.membership import MembershipByComponents
from dosimeter.reproduce.comparison import Row, claim
from dosimeter.reproduce.zari22_data import Study

IMAGES = ("LFW", "MNIST")
MUCH_LOWER = 0.2
"""Ours, for "much lower": this far below in AUC."""
FAMILY = 0.05
"""Chance that any of all curves of figure 1 is called more than luck where none is: each has its share of it
(Bonferroni). At 5 % each, one of fifteen passes by luck in every second study; Census at N = 500 did (p = 0.015)."""
DEALS = 599
"""Of the names in each trial: enough for a p of a fifteenth of that."""
FEW = 14
"""Columns left of the pictures, to see whether it is the dimension; Adult has as many."""


@dataclass(frozen=True, eq=False)
class Curve:
    """One table and one N: the attack in several trials, each with its null band."""

    study: Study
    N: int
    runs: tuple[MembershipByComponents, ...]

    @property
    def maxima(self) -> FloatArray:
        """(trials,) largest AUC over k."""
        return np.array([run.maximum for run in self.runs])

    @property
    def mean(self) -> float:
        """Of the largest AUC, over the trials."""
        return float(self.maxima.mean())

    @property
    def half(self) -> float:
        """Half of the 95 % interval of that mean."""
        return half_interval(self.maxima)

    @property
    def chance(self) -> FloatArray:
        """(deals,) the same mean when in every trial the names member and stranger are dealt at random."""
        return np.asarray(np.mean([run.null.maxima for run in self.runs], axis=0))

    @property
    def chance_95(self) -> float:
        """What that mean stays below in 95 % of the deals."""
        return float(np.quantile(self.chance, 0.95, method="higher"))

    @property
    def p_value(self) -> float:
        """Chance of such a mean where nothing is told: (1 + deals as high)/(1 + deals)."""
        return float((1 + np.sum(self.chance >= self.mean)) / (1 + len(self.chance)))

    @property
    def by_k(self) -> FloatArray:
        """(r, trials) AUC at k = 1, ..., r, r the least rank of the trials."""
        r = min(len(run.auc) for run in self.runs)
        return np.array([run.auc[1:r] for run in self.runs]).T

    @property
    def honest(self) -> float:
        """Mean AUC at a k that was chosen on other rows than those it is read on."""
        return float(np.mean([run.scores.figure for run in self.runs]))

    @property
    def words(self) -> str:
        """The mean with its interval, and chance beside it."""
        return (
            f"N = {self.N}: {self.mean:.3f} ± {self.half:.3f} (by chance {self.chance.mean():.3f}, 95 % below "
            f"{self.chance_95:.3f}, p = {self.p_value:.2g})"
        )


def half_interval(values: FloatArray, level: float = 0.95) -> float:
    """Half of Student's interval for the mean of the trials (t,).

    >>> round(half_interval(np.array([0.4, 0.5, 0.6])), 4)
    0.2484
    """
    from scipy.stats import t

    n = len(values)
    return float(t.ppf(0.5 + level / 2, n - 1) * values.std(ddof=1) / np.sqrt(n))


def above(a: FloatArray, b: FloatArray) -> bool:
    """Whether a (trials,) lies above b beyond the 95 % interval of the difference; same splits, so trial by trial.

    >>> above(np.array([0.6, 0.7, 0.8]), np.array([0.5, 0.6, 0.71])), above(np.zeros(3), np.zeros(3))
    (True, False)
    """
    step = a - b
    return bool(step.mean() > half_interval(step))


def curve(study: Study, N: int, columns: int | None = None) -> Curve:
    """The attack at one N; `columns`: on that many columns, others in each trial."""
    runs = []
    for trial in range(study.trials):
        members, strangers, rng = study.parted(N, trial)
        if columns is not None:
            some = rng.choice(np.flatnonzero(study.X.any(axis=0)), columns, replace=False)
            members, strangers = members[:, some], strangers[:, some]
        runs.append(pca.attack(pca.components_of(members, centred=False), members, strangers, rng, trials=DEALS))
    return Curve(study, N, tuple(runs))


def curves(study: Study) -> tuple[Curve, ...]:
    """Figure 1 of one table."""
    return tuple(curve(study, N) for N in study.sizes)


def rows(told: dict[str, tuple[Curve, ...]], few: dict[str, Curve]) -> list[Row]:
    """Every sentence of 4.3. told: the curves of each table; few: the pictures cut down to 14 columns."""
    made: list[Row] = []
    level = FAMILY / sum(len(found) for found in told.values())
    for name, found in told.items():
        if name in IMAGES:
            made += _picture_rows(name, found)
        made += [_rises_row(name, found), _falls_row(name, found), *_chance_rows(name, found, level)]
        made += [_drawn_row(name, one) for one in found]
    return [*made, *_lower_rows(told), *(_dimension_row(name, cut, told[name]) for name, cut in few.items())]


def _at_main(found: tuple[Curve, ...]) -> Curve:
    return next(c for c in found if c.study.N == c.N)


def _picture_rows(name: str, found: tuple[Curve, ...]) -> list[Row]:
    main = _at_main(found)
    above = (
        "'reaches' may mean passes. Centring on the members' mean changes nothing (0.983 and 0.972 in four trials); "
        "columns left unstandardised give 0.984 on LFW and 0.909 on MNIST"
    )
    low = min(float(c.by_k.mean(axis=1).min()) for c in found)
    least = min(float(np.maximum.accumulate(c.by_k, axis=0).mean(axis=1).min()) for c in found)
    always = f"4.3 {name}: the AUC is always greater than 0.5"
    printed = f"least of the largest AUC over k' <= k, as figure 1 draws it, over all N and k: {least:.3f}"
    return [
        Row(f"4.3 {name}: AUC reached at N = 1,000", 0.9, main.mean, 0.05, above, main.words),
        claim(f"4.3 {name}: the AUC reaches 0.9 when N = 1,000", main.mean - main.half >= 0.9, main.words),
        claim(always, least > 0.5, printed, None if least > 0.5 else "where k is small the AUC is that of a coin"),
        claim(f"{always}, at each k by itself", low > 0.5, f"least mean AUC over all N and k: {low:.3f}",
              None if low > 0.5 else "figure 1 draws the maximum over k' <= k; with all d components the AUC is 1/2"),
    ]  # fmt: skip


def _rises_row(name: str, found: tuple[Curve, ...]) -> Row:
    """At N of section 5: the last k is above the first and not below the peak, beyond intervals paired by trial.

    Not to see a fall is not enough: what increases has to be seen to. The peak of a trial is read at the k where the
    other trials have theirs, so that it is not above the rest by choice.
    """
    main = _at_main(found)
    auc, last = main.by_k, np.array([run.auc[-1] for run in main.runs])
    mean, first, peak = auc.mean(axis=1), auc[0], _peaks(auc)
    top, rises, falls = int(mean.argmax()), above(last, first), above(peak, last)
    ranks = ", ".join(str(r) for r in sorted({len(run.auc) - 1 for run in main.runs}))
    measured = (
        f"{mean[0]:.3f} at k = 1, {mean[top]:.3f} at k = {top + 1}, {last.mean():.3f} at the last k, "
        f"the rank ({ranks}); "
        f"last less first {_gap(last, first)}; peak, by the other trials' k, less last {_gap(peak, last)}"
    )
    why = "figure 1 draws the maximum over k' <= k, which cannot fall. At each k by itself the AUC " + (
        "rises and falls again: once the components span every row, nobody has a residual left"
        if falls
        else "is not seen to rise from the first k to the last, beyond the interval of these trials"
    )
    return claim(f"4.3 {name}: the AUC increases with k", rises and not falls, measured,
                 None if rises and not falls else why)  # fmt: skip


def _peaks(auc: FloatArray) -> FloatArray:
    """(trials,) AUC (r, trials) of each trial at the k with the largest mean over the others."""
    rest = auc.sum(axis=1, keepdims=True) - auc
    return np.asarray(np.take_along_axis(auc, rest.argmax(axis=0)[None], axis=0)[0])


def _gap(a: FloatArray, b: FloatArray) -> str:
    return f"{(a - b).mean():.3f} ± {half_interval(a - b):.3f}"


def _drawn_row(name: str, one: Curve) -> Row:
    """Figure 1 in numbers: the drawn curve, and the AUC at each k by itself, at five k between 1 and the rank."""
    auc = one.by_k
    running = np.maximum.accumulate(auc, axis=0)
    at = np.unique(np.linspace(0, len(auc) - 1, 5).round().astype(np.intp))
    points = "; ".join(f"k = {k + 1}: {_mean(running[k])}, by itself {_mean(auc[k])}" for k in at)
    rises = above(running[-1], running[0])
    measured = f"largest AUC up to k, {points}; the last one by chance {one.chance.mean():.3f}"
    why = "a maximum cannot fall; that it rises is not beyond the interval of these trials"
    words = f"figure 1 {name}, N = {one.N}: the drawn curve, the largest AUC up to k, rises with k"
    return claim(words, rises, measured, None if rises else why)


def _mean(values: FloatArray) -> str:
    return f"{values.mean():.3f} ± {half_interval(values):.3f}"


def _falls_row(name: str, found: tuple[Curve, ...]) -> Row:
    means = [c.mean for c in found]
    # 1.000 twice is no rise: both are as high as an AUC can be.
    falls = all(b < a or a == b == 1 for a, b in pairwise(means))
    measured = ", ".join(f"{c.mean:.3f} at N = {c.N}" for c in found)
    return claim(f"4.3 {name}: the AUC decreases with N", falls, f"largest AUC over k: {measured}")


def _chance_rows(name: str, found: tuple[Curve, ...], level: float) -> list[Row]:
    why = "the largest of several AUCs lies above 1/2 by luck; this one is not clearly above what dealt names give"
    return [
        claim(
            f"figure 1 {name}, N = {c.N}: members are told from strangers",
            c.p_value <= level,
            f"{c.words}; {c.honest:.3f} at a k chosen on other rows; asked: p at most {level:.2g}, that is {FAMILY:g} "
            "shared by all curves of figure 1",
            None if c.p_value <= level else why,
        )
        for c in found
    ]


def _lower_rows(told: dict[str, tuple[Curve, ...]]) -> list[Row]:
    least = min(_at_main(told[name]).mean for name in IMAGES)
    made = []
    for name in ("Adult", "Census"):
        main = _at_main(told[name])
        measured = f"{main.mean:.3f} against {least:.3f}, the lower of LFW and MNIST; ours for 'much': {MUCH_LOWER}"
        made.append(claim(f"4.3 {name}: the AUC is much lower", least - main.mean >= MUCH_LOWER, measured))
    return made


def _dimension_row(name: str, cut: Curve, whole: tuple[Curve, ...]) -> Row:
    full = _at_main(whole).mean
    measured = (
        f"{name} with {FEW} of its columns, drawn anew in each trial, N = {cut.N}: {cut.mean:.3f} from {full:.3f}"
    )
    return claim(
        f"4.3 the lower AUC is mainly due to the small dimension ({name})", full - cut.mean >= MUCH_LOWER, measured
    )
