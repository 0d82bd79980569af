"""Parts of the result of `pca`: the guarantee, the noise, the doses, the explained variance, the split-half attack."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import numpy as np
from pydantic import Field

from dosimeter.core.arrays import FloatArray
from dosimeter.results.distribution import distribution
from dosimeter.results.parts import AttackSummary, Distribution, Ranked
from dosimeter.results.people import PersonFigures, ranked
from dosimeter.results.visibility import (
    FORM,
    GIVEN,
    NOISED,
    ONE,
    STATISTIC,
    WORDS,
    Amount,
    ResultModel,
    present,
    public,
)

if TYPE_CHECKING:
    from dosimeter.core.dose import Dose
    from dosimeter.models.component_attack import SplitHalf
    from dosimeter.models.component_release import TableComponents
    from dosimeter.pca.membership import MembershipByComponents
    from dosimeter.pca.release import PrivateComponents

READ = "the bounds were read off the table"
BOUNDS = public("follows from the declared bounds, the mechanism and N", lambda result: bool(result.private), READ)
MOST = 64
"""Components shown one by one; more are thinned out to this number."""
ON = "each distinct entry of the second moment"
ON_MEAN = "each entry of the mean"
NEAR = "values of the row, near its own"
"""What η compares."""
INTERVAL = "rows, as if independent"
Relation = Literal["replace-one", "add-or-remove-one"]


class ComponentGuarantee(ResultModel):
    """(ε, δ), for whom, and whether the noise proves it."""

    epsilon: Annotated[float, GIVEN]
    delta: Annotated[float, GIVEN]
    neighbours: Annotated[Relation, GIVEN]
    unit: Annotated[Literal["row", "person"], WORDS]
    costs: Annotated[Amount, BOUNDS]
    """ε at δ that this noise costs, whatever was stated."""
    holds: Annotated[bool, BOUNDS]
    standing: Annotated[str, GIVEN]

    @classmethod
    def of(cls, private: PrivateComponents) -> ComponentGuarantee:
        """From the release."""
        mechanism = private.mechanism
        return cls(
            epsilon=float(mechanism.epsilon),
            delta=mechanism.budget_delta,
            neighbours=cast(Relation, mechanism.relation),
            unit=unit_of(private),
            costs=private.epsilon(),
            holds=bool(private.holds),
            standing=private.standing.value,
        )


def unit_of(private: PrivateComponents) -> Literal["row", "person"]:
    """Whom the guarantee is about."""
    return "person" if private.unit == "person" else "row"


class MomentNoise(ResultModel):
    """The noise on the second moment."""

    on: Annotated[str, WORDS]
    law: Annotated[str, GIVEN]
    scale_low: Annotated[float, BOUNDS]
    scale_high: Annotated[float, BOUNDS]
    second_moment_reach: Annotated[float, BOUNDS]
    mean_share: Annotated[float, GIVEN]
    """Part of the budget that is spent on the mean; 0: moments about the public centre."""
    mean_scale: Annotated[float, BOUNDS]
    """Of the noise on each entry of the mean; 0 if none is released."""

    @classmethod
    def of(cls, private: PrivateComponents) -> MomentNoise:
        """From the release."""
        share = private.mechanism.share
        return cls(
            on=ON if share == 0 else f"{ON}, and of another scale on {ON_MEAN}",
            law=private.mechanism.law.__name__.lower(),
            scale_low=float(private.scales.min()),
            scale_high=float(private.scales.max()),
            second_moment_reach=float(private.box.reach.max() ** 2),
            mean_share=share,
            mean_scale=private.mean_scale,
        )


class ComponentCount(ResultModel):
    """How many components leave."""

    released: Annotated[int, NOISED]
    columns: Annotated[int, FORM]
    share_of_noisy_variance: Annotated[float | None, GIVEN]


class CapturedVariance(ResultModel):
    """Variance of the table about its mean that the released directions explain, over the most that k can."""

    k: Annotated[int, STATISTIC]
    q: Annotated[float, STATISTIC]
    at_random: Annotated[float, STATISTIC]
    """The same of random directions, expected."""

    @classmethod
    def of(cls, A: FloatArray, vectors: FloatArray, k: int) -> CapturedVariance:
        """q of section 5.3 of [Zari22] for A (d, d) about the mean; 0 for a table without variance."""
        from dosimeter.pca.utility import explained_variance, random_subspace

        if not np.any(A):
            return cls(k=k, q=0.0, at_random=0.0)
        q = explained_variance(A, vectors, k)
        return cls(k=k, q=q, at_random=random_subspace(A, k))


class VarianceByComponents(ResultModel):
    """Share of the table's variance about its mean in the first k directions, k = 1, 2, ..."""

    k: Annotated[list[int], STATISTIC]
    exact: Annotated[list[float], STATISTIC]
    """In the best k directions."""
    released: Annotated[list[float], STATISTIC]
    """In the first k noised ones."""
    at_random: Annotated[list[float], STATISTIC]

    @classmethod
    def of(cls, A: FloatArray, vectors: FloatArray) -> VarianceByComponents:
        """Shares of tr A, (d, d) about the mean, in the first k columns of vectors (d, r).

        >>> VarianceByComponents.of(np.diag([3.0, 1.0]), np.eye(2)[:, ::-1])
        VarianceByComponents(k=[1, 2], exact=[0.75, 1.0], released=[0.25, 1.0], at_random=[0.5, 1.0])
        """
        d, total = len(A), float(np.trace(A))
        best = np.cumsum(np.linalg.eigvalsh(A)[::-1]) / total
        explained = np.cumsum(np.einsum("dk,dk->k", vectors, A @ vectors)) / total
        k = _thinned(vectors.shape[1])
        return cls(
            k=k.tolist(),
            exact=best[k - 1].tolist(),
            released=explained[k - 1].tolist(),
            at_random=(k / d).tolist(),
        )


def _thinned(r: int) -> Any:
    """(at most MOST,) whole numbers from 1 to r, the first and the last included."""
    return np.unique(np.linspace(1, r, min(r, MOST)).round().astype(int)) if r else np.array([], dtype=int)


class ComponentDoses(ResultModel):
    """η or μ over the people, or why it was not measured."""

    symbol: Annotated[str, STATISTIC] = ""
    compares: Annotated[str, STATISTIC] = ""
    unit: Annotated[str, STATISTIC] = ""
    highest: Annotated[Amount | None, ONE] = None
    typical: Annotated[Amount | None, STATISTIC] = None
    standing: Annotated[str, STATISTIC] = ""
    not_measured: Annotated[str, STATISTIC] = ""

    @classmethod
    def of(cls, dose: Dose, compares: str) -> ComponentDoses:
        """Highest and median."""
        return cls(
            symbol=dose.notion.symbol,
            compares=compares,
            unit="person" if dose.unit == "person" else "row",
            highest=float(dose.figures.max()),
            typical=float(np.median(dose.figures)),
            standing=dose.standing.value,
        )


class InternalComponentFigures(ResultModel):
    """Computed from the table without protection."""

    clipped_share: Annotated[float, STATISTIC]
    labels_outside_the_list: Annotated[int, STATISTIC]
    rows_left_out: Annotated[int, STATISTIC]
    captured: Annotated[CapturedVariance, STATISTIC]
    variance: Annotated[VarianceByComponents | None, STATISTIC] = None
    dose: Annotated[ComponentDoses | None, STATISTIC] = None
    membership: Annotated[ComponentDoses | None, STATISTIC] = None
    distribution: Annotated[Distribution | None, STATISTIC] = None
    ranked: Annotated[list[Ranked], ONE] = Field(default_factory=list)
    people: Annotated[int | None, STATISTIC] = None
    most_rows_of_a_person: Annotated[int | None, ONE] = None

    @classmethod
    def of(cls, release: TableComponents) -> InternalComponentFigures:
        """From the release and its rows. What cannot be computed stays unset."""
        from dosimeter.core.progress import stage

        stage("measuring every person")
        rows, A = release.rows, release.covariance
        vectors = release.private.components.vectors
        eta, membership = measured_doses(release)
        return cls(
            clipped_share=release.private.clipped_share,
            labels_outside_the_list=rows.unlisted,
            rows_left_out=rows.incomplete,
            captured=CapturedVariance.of(A, vectors, release.k),
            **present(
                variance=VarianceByComponents.of(A, vectors) if np.any(A) else None,
                dose=eta,
                membership=membership,
                people=None if rows.ids is None else len(rows.counts),
                most_rows_of_a_person=None if rows.ids is None else rows.most_rows,
            ),
            **exposure(release),
        )


def measured_doses(release: TableComponents) -> tuple[ComponentDoses, ComponentDoses | None]:
    """η and μ, each measured or with the reason why not; no μ without η."""
    from dosimeter.models.component_release import PRESENCE

    doses, reason = release.measured
    not_measured = ComponentDoses(not_measured=reason)
    if not doses:
        return not_measured, None
    eta = ComponentDoses.of(doses[0], NEAR)
    return eta, ComponentDoses.of(doses[1], PRESENCE) if len(doses) > 1 else not_measured


def exposure(release: TableComponents) -> dict[str, Any]:
    """The distribution of η and the most exposed, if η was measured and is bounded."""
    rows, (doses, _) = release.rows, release.measured
    if not doses or not np.isfinite(doses[0].figures).all():
        return {}
    unit = "row" if rows.ids is None else "person"
    spread = distribution(doses[0].figures, of=doses[0].notion.symbol, unit=unit)
    if rows.incomplete:  # the positions of the rows in the file are not known
        return {"distribution": spread}
    return {"distribution": spread, "ranked": most_exposed(doses[0], rows.ids, np.arange(len(rows.X)))}


def most_exposed(dose: Dose, ids: tuple[Any, ...] | None, positions: Any) -> list[Ranked]:
    """Those with the highest doses; positions (n,) of the rows in their source."""
    eta = dose.figures
    if ids is not None:
        by_id = dict(zip(dose.ids, eta.tolist(), strict=True))
        eta = np.array([by_id[person] for person in dict.fromkeys(ids)])
    return ranked(PersonFigures.named(eta, ids), positions)


class AttackByComponents(ResultModel):
    """AUC when the first k components are seen, beside what chance gives."""

    k: Annotated[list[int], STATISTIC]
    auc: Annotated[list[float], STATISTIC]
    null_low: Annotated[list[float], STATISTIC]
    """2.5 % of the random splits lie below."""
    null_high: Annotated[list[float], STATISTIC]

    @classmethod
    def of(cls, attack: MembershipByComponents) -> AttackByComponents:
        """For each k that is shown."""
        k = _thinned(len(attack.auc) - 1)
        low, high = np.quantile(attack.null.auc[:, k], [0.025, 0.975], axis=0)
        return cls(k=k.tolist(), auc=attack.auc[k].tolist(), null_low=low.tolist(), null_high=high.tolist())


class MembershipSummary(AttackSummary):
    """The attack of [Zari22] at one k, and the best k after the fact."""

    k: Annotated[int, STATISTIC]
    rank: Annotated[int, STATISTIC]
    maximum: Annotated[float, STATISTIC]
    best_k: Annotated[int, STATISTIC]
    null_mean: Annotated[float, STATISTIC]
    null_95: Annotated[float, STATISTIC]
    p_value: Annotated[float, STATISTIC]
    beats_chance: Annotated[bool, STATISTIC]
    null_at_k: Annotated[list[float], STATISTIC]
    by_components: Annotated[AttackByComponents | None, STATISTIC] = None

    @classmethod
    def of(cls, attack: MembershipByComponents) -> MembershipSummary:
        """From the attack at every k."""
        scores = attack.scores
        low, high, level = scores.interval
        return cls(
            attack=scores.attack,
            measure=scores.measure,
            figure=scores.figure,
            low=low,
            high=high,
            level=level,
            control=scores.control_figure,
            beats_control=scores.beats_control,
            standing=scores.standing.value,
            k=attack.k,
            rank=len(attack.auc) - 1,
            maximum=attack.maximum,
            best_k=attack.best_k,
            null_mean=attack.null.bias,
            null_95=attack.null.high(),
            p_value=attack.p_value,
            beats_chance=attack.beats_chance,
            null_at_k=[float(np.quantile(attack.null.auc[:, attack.k], q)) for q in (0.025, 0.975)],
            by_components=AttackByComponents.of(attack),
        )


class SplitHalfAttack(ResultModel):
    """Half of the people as members, the others as strangers."""

    members: Annotated[int, STATISTIC]
    strangers: Annotated[int, STATISTIC]
    attacked: Annotated[int | None, STATISTIC] = None
    """Rows that were attacked, if they were not all: those of people whom a public rule chose."""
    simulation: Annotated[bool, STATISTIC]
    dealt_by: Annotated[str, STATISTIC]
    interval_over: Annotated[str, STATISTIC]
    before: Annotated[MembershipSummary, STATISTIC]
    after: Annotated[MembershipSummary, STATISTIC]

    @classmethod
    def of(cls, attack: SplitHalf) -> SplitHalfAttack:
        """From the attack on both halves."""
        return cls(
            members=attack.members,
            strangers=attack.strangers,
            simulation=True,
            dealt_by="person" if attack.by_person else "row",
            interval_over=INTERVAL,
            before=MembershipSummary.of(attack.before),
            after=MembershipSummary.of(attack.after),
            **present(attacked=attack.attacked if attack.attacked < attack.members + attack.strangers else None),
        )
