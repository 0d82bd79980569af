"""Kinds of study at the coordinator, by the schema's kind: what happens before the draw, and who books."""

from __future__ import annotations

from collections.abc import Callable

from dosimeter.models.consortium_study import CoordinatorStudy, Refused, StudyDraw, StudyOutcome, release_once
from dosimeter.models.model_study import prepare_model
from dosimeter.models.moment_study import prepare_components, prepare_noisy_components, prepare_noisy_model
from dosimeter.models.training_study import prepare_training
from dosimeter.tables.consortium_schema import COMPONENTS, MODEL, NOISY_COMPONENTS, NOISY_MODEL, TRAINING

PREPARE: dict[str, Callable[[CoordinatorStudy], StudyDraw | Refused]] = {
    MODEL: prepare_model,
    NOISY_MODEL: prepare_noisy_model,
    COMPONENTS: prepare_components,
    NOISY_COMPONENTS: prepare_noisy_components,
    TRAINING: prepare_training,
}
SITES_BOOK_FIRST = (NOISY_MODEL, NOISY_COMPONENTS)
"""Kinds in which each site books what it sends, before it sends it."""


def coordinate(study: CoordinatorStudy) -> StudyOutcome:
    """Run a study up to its release, or to the point where a site says no."""
    kind = study.schema.kind
    return release_once(study, PREPARE[kind], sites_book=kind not in SITES_BOOK_FIRST)
