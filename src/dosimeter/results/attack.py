"""The result of `attack`: what an attacker with the released weights achieved, beside the figure that bounds it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import PrivateAttr

from dosimeter.core.errors import Refusal
from dosimeter.core.notion import Standing
from dosimeter.results.answers import ANSWERS
from dosimeter.results.linear_parts import SEEN
from dosimeter.results.measurement import InversionSummary, noise_on
from dosimeter.results.parts import AttackSummary
from dosimeter.results.result import Result
from dosimeter.results.visibility import FORM, GIVEN, ONE, STATISTIC, WHOLE, WORDS, ResultModel

if TYPE_CHECKING:
    from dosimeter.attacks import AttackResult
    from dosimeter.core.noise import Density
    from dosimeter.models.linear_attack import Inversion, Presence
    from dosimeter.tables.table import Table

Kind = Literal["inversion", "membership"]
ATTACKERS: dict[Kind, str] = {
    "inversion": "knows everything else in the table, and guesses one column of each row",
    "membership": "knows all other rows, and guesses whether a row took part",
}
LOW_FPR = 0.01
"""False positive rate at which the true positive rate is reported."""


class AucFigures(ResultModel):
    """Area under the ROC curve of the best attack on each row; 0.5 is a coin."""

    typical: Annotated[float, STATISTIC]
    highest: Annotated[float, ONE]
    highest_row: Annotated[int, ONE]
    """The number of the most exposed row in the file, from 1."""


class DetectionFigures(ResultModel):
    """True positive rate of the best attack on each row, at 1 % false positives."""

    typical: Annotated[float, STATISTIC]
    highest: Annotated[float, ONE]


class MembershipFigures(ResultModel):
    """Whether a row took part: every row with a fitted scaler held fixed, and simulated on the most exposed one."""

    notion: Annotated[str, WORDS]
    standing: Annotated[str, WORDS]
    auc: Annotated[AucFigures | None, STATISTIC] = None
    """Absent for answers without a closed form: labels, and other noise than Gaussian."""
    tpr_at_1_percent_fpr: Annotated[DetectionFigures | None, STATISTIC] = None
    row: Annotated[int | None, ONE] = None
    """The number of the row that was attacked, from 1."""
    played: Annotated[AttackSummary, STATISTIC]
    """The best attack on the most exposed row, on simulated releases."""

    @classmethod
    def of(cls, presence: Presence, table: Table) -> MembershipFigures:
        """With Gaussian noise the best attack on a row has AUC Φ(μ/√2), and finds Φ(μ + Φ⁻¹(α)) at rate α."""
        import numpy as np
        from scipy.special import ndtr, ndtri

        from dosimeter.results.people import number_of

        row = number_of(table, presence.row)
        if not presence.has_mu:  # the simulated attack alone, on the row whose absence moves the answers most
            standing, played = presence.played.standing.value, _summary(presence.played)
            return cls(notion="membership, strongest adversary", standing=standing, row=row, played=played)
        auc, caught = ndtr(presence.mu / np.sqrt(2)), ndtr(presence.mu + ndtri(LOW_FPR))
        return cls(
            notion="membership, strongest adversary",
            standing=(Standing.UNACCOUNTED if presence.scaler_held else Standing.EXACT).value,
            row=row,
            auc=AucFigures(typical=float(np.median(auc)), highest=float(auc.max()), highest_row=row),
            tpr_at_1_percent_fpr=DetectionFigures(typical=float(np.median(caught)), highest=float(caught.max())),
            played=_summary(presence.played),
        )


class AttackReport(Result):
    """What an attack on simulated releases of a linear model achieved."""

    schema_name: ClassVar[str] = "dosimeter.attack/3"
    title: ClassVar[str] = "What an attack on this release finds"

    internal: Annotated[bool, WHOLE]
    kind: Annotated[Kind, GIVEN]
    target: Annotated[str, FORM]
    """The column that the attacked model predicts."""
    loss: Annotated[str | None, FORM] = None
    """Of that model."""
    noise: Annotated[str, GIVEN]
    noise_on: Annotated[str, WORDS]
    attacker: Annotated[str, WORDS]
    trials: Annotated[int, GIVEN]
    """Releases that were simulated."""
    release: Annotated[str, GIVEN] = "weights"
    """What was attacked: weights or answers."""
    queries: Annotated[int | None, GIVEN] = None
    """Public queries that were answered."""
    inversion: Annotated[InversionSummary | None, STATISTIC] = None
    highest_eta: Annotated[float | None, ONE] = None
    """The highest figure of the guessed column over the rows."""
    membership: Annotated[MembershipFigures | None, STATISTIC] = None
    remarks: Annotated[list[str], SEEN]

    _attack_result: Any = PrivateAttr(default=None)

    @property
    def attack_result(self) -> AttackResult:
        """The attack itself, score by score. Only in the session that played it: a stored report has no scores."""
        result: AttackResult | None = self._attack_result
        if result is None:
            raise Refusal("this report was read from a file, which holds no scores: run the attack again")
        return result

    @classmethod
    def of_inversion(
        cls, inversion: Inversion, column: str, *, target: str, noise: Density, trials: int, answer: str | None = None
    ) -> AttackReport:
        """column: the one that was guessed. answer: what queries were answered with, if answers were attacked."""
        report = cls(
            internal=True,
            kind="inversion",
            target=target,
            loss=inversion.loss.description,
            noise=str(noise),
            attacker=ATTACKERS["inversion"],
            trials=trials,
            **_released(inversion, answer),
            inversion=InversionSummary.of(inversion, column, simulation=True),
            highest_eta=float(inversion.eta.max()),
            remarks=list(inversion.remarks),
        )
        report._attack_result = inversion.guesses
        return report

    @classmethod
    def of_membership(
        cls, presence: Presence, table: Table, *, target: str, noise: Density, trials: int, answer: str | None = None
    ) -> AttackReport:
        """table: the attacked rows."""
        report = cls(
            internal=True,
            kind="membership",
            target=target,
            loss=presence.loss.description,
            noise=str(noise),
            attacker=ATTACKERS["membership"],
            trials=trials,
            **_released(presence, answer),
            membership=MembershipFigures.of(presence, table),
            remarks=list(presence.remarks),
        )
        report._attack_result = presence.played
        return report


def _released(attacked: Inversion | Presence, answer: str | None) -> dict[str, Any]:
    """What was attacked, and what the noise is on."""
    if answer is None:
        return {"noise_on": noise_on(attacked.loss, True)}
    return {"noise_on": ANSWERS[answer], "release": "answers", "queries": attacked.queries}


def _summary(attack: AttackResult) -> AttackSummary:
    low, high, level = attack.interval
    return AttackSummary(
        attack=attack.attack,
        measure=attack.measure,
        figure=attack.figure,
        low=low,
        high=high,
        level=level,
        control=attack.control_figure,
        beats_control=attack.beats_control,
        standing=attack.standing.value,
    )
