"""The noise of a release over blocks: drawn once, after everything else was decided.

With a checkpoint the released numbers and the file are kept there before anything is scored, booked or written. The
same command then never draws again: a second draw of the same weights would be a second release, and the two together
leak more. Without a checkpoint a draw that was not written is lost with its process, and nobody saw it.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dosimeter.core.arrays import FloatArray
from dosimeter.core.location import Location
from dosimeter.core.release import Recipe
from dosimeter.engines.checkpoint import read_sealed, write_first_sealed
from dosimeter.glm.blocks.block_scores import score_of, score_terms
from dosimeter.glm.releases.weight_sums import exact_sums
from dosimeter.models.block_model import BlockModel
from dosimeter.models.block_release import BlockRelease
from dosimeter.models.usefulness import finite_score
from dosimeter.noise_addition.linear_map import Row
from dosimeter.tables.sklearn_estimators import linear_model
from dosimeter.tables.sklearn_export import input_order, pipeline
from dosimeter.tables.table import Table
from dosimeter.tables.weight_folding import fold, model_inputs
from dosimeter.workflows.block_table import BlockTable

KEPT = "release.npz"
EARLIER = "the noise was drawn by an earlier run with this checkpoint: the same release is written again"


@dataclass(frozen=True, eq=False)
class DrawnRelease:
    """What leaves, and the noise in it. Internal but for the file."""

    model: Any
    """The scikit-learn pipeline."""
    artefact: bytes
    recipe: Recipe
    coef: FloatArray
    intercept: FloatArray
    earlier: bool
    """Whether it was drawn by an earlier run."""

    def noise(self, release: BlockRelease) -> bytes:
        """The noise on each released number: it identifies the draw, and it reveals the exact weights."""
        drawn = np.append(self.coef, self.intercept)
        return (drawn - exact_sums(release.plan.fit, released_rows(release))).tobytes()


def released_rows(release: BlockRelease) -> Sequence[Row]:
    """The released numbers as sums over the noised weights."""
    return fold(release.model.encoding)


def draw_once(release: BlockRelease, folder: Path | None, rng: np.random.Generator | None) -> DrawnRelease:
    """Draw the noise and build the file; or take both from a checkpoint's folder."""
    import skops.io as sio

    kept = None if folder is None else folder / KEPT
    if kept is not None and kept.exists():
        return _read(kept, release)
    drawn = release.plan.draw(rng, released_rows(release))
    coef, intercept = drawn.values["coef"], drawn.values["intercept"]
    model = _pipeline(release.model, coef, intercept)
    result = DrawnRelease(model, sio.dumps(model), drawn.recipe, coef, intercept, False)
    if kept is not None and not _write(kept, result):
        return _read(kept, release)  # another process drew meanwhile: its draw is the release
    return result


def _pipeline(model: BlockModel, coef: FloatArray, intercept: FloatArray) -> Any:
    last = linear_model(model.loss, coef[input_order(model.encoding)], float(intercept[0]), model.classes)
    return pipeline(model.encoding, last)


def _write(path: Path, drawn: DrawnRelease) -> bool:
    """Whether this is the first draw."""
    recipe = drawn.recipe
    text = json.dumps(
        {
            "kind": recipe.kind,
            "noise": recipe.noise,
            "settings": dict(recipe.settings),
            "not_covered": list(recipe.not_covered),
            "simulation": recipe.simulation,
        }
    )
    arrays = {"coef": drawn.coef, "intercept": drawn.intercept, "artefact": _bytes(drawn.artefact)}
    stream = io.BytesIO()
    np.savez(stream, recipe=_bytes(text.encode()), **arrays)  # type: ignore[arg-type]
    return write_first_sealed(path, stream.getvalue())


def _bytes(content: bytes) -> NDArray[np.uint8]:
    return np.frombuffer(content, dtype=np.uint8)


def _read(path: Path, release: BlockRelease) -> DrawnRelease:
    content = read_sealed(path, Location(str(path)).refusal("is damaged", "delete the folder if nothing was sent"))
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        coef, intercept, artefact = arrays["coef"], arrays["intercept"], bytes(arrays["artefact"])
        recipe = json.loads(bytes(arrays["recipe"]).decode())
    model = _pipeline(release.model, coef, intercept)
    of_then = Recipe(
        recipe["kind"], recipe["noise"], recipe["settings"], tuple(recipe["not_covered"]), recipe["simulation"]
    )
    return DrawnRelease(model, artefact, of_then, coef, intercept, True)


def released_score(release: BlockRelease, drawn: DrawnRelease, table: BlockTable) -> float:
    """The score of the released model on its own table: one pass."""
    f = partial(_released_terms, model=release.model, coef=drawn.coef, intercept=drawn.intercept)
    (terms,) = table.engine.sum_over(table.parts, f)
    score = score_of(release.model.loss, terms)
    return finite_score(-np.inf if score is None else score)


def _released_terms(table: Table, model: BlockModel, coef: FloatArray, intercept: FloatArray) -> tuple[FloatArray]:
    m = model_inputs(model.encoding, table) @ coef + intercept[0]
    return (score_terms(model.loss, m, model.labels(table), model.target_mean),)
