"""The demonstration: a model of 442 diabetes patients that ship with scikit-learn, measured and attacked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dosimeter.core.checks import positive
from dosimeter.core.noise import Gaussian
from dosimeter.datasets.demo import DERIVED, TARGET, diabetes
from dosimeter.models.fit_table import fit_table
from dosimeter.models.linear_attack import invert
from dosimeter.results.measurement import InversionSummary, Measurement

if TYPE_CHECKING:
    from dosimeter.tables.table import Table

SCALE, LIMIT, TRIALS = 1.0, 1.0, 200
"""Fixed in advance, not tuned on the patients. docs/explanation/limits.md suggests this limit."""


def demo_measurement(scale: float = SCALE, max_dose: float = LIMIT) -> Measurement:
    """What Gaussian noise of this scale on each weight leaves of a linear regression of the patients.

    The most exposed value is also guessed by an attacker, if it is a column and not the target.
    """
    noise, limit = Gaussian(positive("scale", scale)), positive("max_dose", max_dose)
    table = diabetes().drop(DERIVED)
    fit = fit_table(table, TARGET, noise=noise)
    measured = Measurement.of(fit.leakage, table, limit=limit, fit=fit)
    column = None if measured.meaning is None else measured.meaning.column
    attack = None if column in (None, TARGET) else _inversion(table, str(column), noise)
    return measured.with_fields(attack=attack)


def _inversion(table: Table, column: str, noise: Gaussian) -> InversionSummary:
    rng = np.random.Generator(np.random.PCG64(0))
    return InversionSummary.of(
        invert(table, TARGET, column, noise=noise, trials=TRIALS, rng=rng), column, simulation=True
    )
