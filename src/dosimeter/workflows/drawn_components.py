"""The noise of components over blocks: drawn once, after everything else was decided.

With a checkpoint the noised moments and the file are kept there before anything is booked or written, so the same
command never draws again: a second draw would be a second release, and the two together leak more.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dosimeter.core.location import Location
from dosimeter.engines.checkpoint import read_sealed, write_first_sealed
from dosimeter.models.block_components import ComponentModel
from dosimeter.models.component_release import released_count
from dosimeter.models.component_rows import encoded_pipeline
from dosimeter.pca.moment_plan import MomentPlan
from dosimeter.pca.release import MomentPair, PrivateComponents, add_noise_to, private_components
from dosimeter.workflows.drawn_release import EARLIER as EARLIER
from dosimeter.workflows.drawn_release import KEPT


@dataclass(frozen=True, eq=False)
class DrawnComponents:
    """What leaves."""

    noised: MomentPair
    model: Any
    """The scikit-learn pipeline; None if the noise does not prove the stated budget."""
    artefact: bytes
    earlier: bool
    """Whether it was drawn by an earlier run."""


def draw_components_once(
    plan: MomentPlan, exact: MomentPair, model: ComponentModel, count: int | float, folder: Path | None, public: bool
) -> DrawnComponents:
    """Draw the noise and build the file; or take both from a checkpoint's folder."""
    import skops.io as sio

    kept = None if folder is None else folder / KEPT
    if kept is not None and kept.exists():
        return _drawn_earlier(kept, plan, model, count)
    noised = add_noise_to(plan, exact, None)
    private = private_components(plan, noised, 0.0, simulation=False)
    released = private.holds or not public
    pipeline = _pipeline(plan, noised, model, count, private) if released else None
    artefact = b"" if pipeline is None else sio.dumps(pipeline)
    if kept is not None and not _write(kept, noised, artefact):
        return _drawn_earlier(kept, plan, model, count)  # by another process, meanwhile
    return DrawnComponents(noised, pipeline, artefact, False)


def _drawn_earlier(path: Path, plan: MomentPlan, model: ComponentModel, count: int | float) -> DrawnComponents:
    noised, artefact = _read(path)
    pipeline = _pipeline(plan, noised, model, count) if artefact else None
    return DrawnComponents(noised, pipeline, artefact, True)


def _pipeline(
    plan: MomentPlan,
    noised: MomentPair,
    model: ComponentModel,
    count: int | float,
    private: PrivateComponents | None = None,
) -> Any:
    private = private or private_components(plan, noised, 0.0, simulation=False)
    return encoded_pipeline(model.encoding, private, released_count(private, count)[0])


def _write(path: Path, noised: MomentPair, artefact: bytes) -> bool:
    """Whether this is the first draw."""
    mean = {} if noised.mean is None else {"mean": noised.mean}
    stream = io.BytesIO()
    np.savez(stream, second_moment=noised.second_moment, artefact=np.frombuffer(artefact, dtype=np.uint8), **mean)  # type: ignore[arg-type]
    return write_first_sealed(path, stream.getvalue())


def _read(path: Path) -> tuple[MomentPair, bytes]:
    content = read_sealed(path, Location(str(path)).refusal("is damaged", "delete the folder if nothing was sent"))
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        mean = arrays["mean"] if "mean" in arrays.files else None
        return MomentPair(arrays["second_moment"], mean), bytes(arrays["artefact"])
