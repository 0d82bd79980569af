"""The result of `pca`: components of a noised second moment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import Field

from dosimeter.results.component_parts import (
    READ,
    ComponentCount,
    ComponentGuarantee,
    InternalComponentFigures,
    MomentNoise,
    SplitHalfAttack,
    unit_of,
)
from dosimeter.results.parts import Artefact, Booking, Refused
from dosimeter.results.result import Result
from dosimeter.results.visibility import GIVEN, LOCAL, NOISED, STATISTIC, WORDS, internal, present, public

if TYPE_CHECKING:
    from dosimeter.models.component_attack import SplitHalf
    from dosimeter.models.component_release import NoisedComponents
    from dosimeter.pca.release import PrivateComponents

ROWS = public("declared, or the same in all neighbours", lambda result: bool(result.private), READ)
ABOUT_CENTRE = (
    "moments are about the public centre: if the mean lies far from it, the first component points to the mean"
)
ABOUT_MEAN = "components are about a noisy mean, which took {:g} % of the budget and is in the file"
FRESH = "the noise is fresh, is drawn by the operating system and stays secret"
OTHERS = "other releases about the same people add their own (ε, δ)"
PUBLIC_BOUNDS = "names of columns, their bounds and the lists of levels are public"


class ComponentsRelease(Result):
    """Components of a noised second moment."""

    schema_name: ClassVar[str] = "dosimeter.components/3"
    title: ClassVar[str] = "What these components leak"

    private: Annotated[bool, GIVEN]
    mechanism: Annotated[str, GIVEN]
    guarantee: Annotated[ComponentGuarantee, GIVEN]
    noise: Annotated[MomentNoise, GIVEN]
    components: Annotated[ComponentCount, NOISED]
    rows_public: Annotated[int | None, ROWS] = None
    people_public: Annotated[int | None, ROWS] = None
    """In place of the rows if a person is the unit: how many rows a person has is about that person."""
    bounds: Annotated[str, GIVEN]
    units: Annotated[str, GIVEN]
    not_covered: Annotated[list[str], WORDS]
    assumptions: Annotated[list[str], WORDS]
    remarks: Annotated[list[str], internal("some of them say what the ledger holds")]
    internal: Annotated[InternalComponentFigures, STATISTIC]
    attack: Annotated[SplitHalfAttack | None, STATISTIC] = None
    booked: Booking
    artefact: Artefact = ""
    refused: Refused = Field(default_factory=list)
    written: Annotated[str, LOCAL]

    @classmethod
    def of(
        cls, release: NoisedComponents, internal: InternalComponentFigures, attack: SplitHalf | None = None
    ) -> ComponentsRelease:
        """From the release of a table's components, its figures, and an attack on its halves if one was run."""
        from dosimeter.models.component_release import MEASURED_IN, TAKEN

        private, declared = release.private, release.declared
        known = [PUBLIC_BOUNDS, *_remarks(private)] if declared.public else []
        people = unit_of(private) == "person"
        return cls(
            private=declared.public,
            mechanism=release.mechanism,
            guarantee=ComponentGuarantee.of(private),
            noise=MomentNoise.of(private),
            components=ComponentCount(released=release.k, columns=private.box.d, share_of_noisy_variance=release.share),
            bounds="declared" if declared.public else "from the table: not private",
            units=MEASURED_IN[declared.own_units],
            not_covered=[*private.release.recipe.not_covered, *([TAKEN] if declared.public else [])],
            assumptions=[FRESH, OTHERS, *known],
            remarks=_remarks(private),
            internal=internal,
            booked=False,
            written="",
            **present(
                people_public=private.n_samples if people else None,
                rows_public=None if people else private.n_samples,
                attack=None if attack is None else SplitHalfAttack.of(attack),
            ),
        )


def _remarks(private: PrivateComponents) -> list[str]:
    """Sentences that follow from the recipe."""
    share, delta = private.mechanism.share, private.mechanism.budget_delta
    about = ABOUT_MEAN.format(100 * share) if share > 0 else ABOUT_CENTRE
    remarks = [*private.remarks, about]
    if delta * private.n_samples >= 1:
        plural, single = ("people", "a person") if unit_of(private) == "person" else ("rows", "a row")
        remarks.append(
            f"δ = {delta:g} is not below 1 over {private.n_samples} {plural}: it would allow {single} to be printed"
        )
    return remarks
