"""A file that is said to hold noise: whether it does, and what it then leaks.

A noised file is its minimum plus the noise: w = w* + s Z. The dose is that of w*, and (w - w*) / s must look like d
draws of Z: with m the largest of their sizes, P(max |Z| <= m) = F^d, F being the probability that one draw is at most
m. A file without its noise has F^d = 0 up to the tolerance of its solver; another model or table has F^d = 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.models.given_model import measure_model
from dosimeter.workflows.check_desk import Findings
from dosimeter.workflows.check_policy import Declared
from dosimeter.workflows.measure import measure
from dosimeter.workflows.model_leakage import ModelLeakage
from dosimeter.workflows.noise_name import noise_class

ABSENT = 1e-6
"""P(max |Z| <= m) below which the noise is not in the file."""
FAINT = 1e-3
"""Below it a person must look."""


def leakage_of(model: Any, table: Any, target: Any, person: Any, declared: Declared, findings: Findings) -> Any:
    """The leakage of a model as it stands in its file, with the findings on the noise that is said to be in it."""
    if declared.scale is None:
        return measure(model, table, target, person=person)
    law: Any = noise_class(declared.noise)
    noise, unit = law(declared.scale), law(1.0)
    measured = measure_model(model, table, target, person=person, noise=noise, noised=True)
    problem: Any = measured.problem  # a minimum of one loss: others are refused with `noised`
    moved = _centred(np.asarray(problem.w) - np.asarray(measured.leakage.fit.w)) / declared.scale
    largest = float(np.abs(moved).max())
    inside = float(unit.cdf(largest) - unit.cdf(-largest))
    all_inside = inside**moved.size
    if all_inside < ABSENT:
        farthest = f"no weight is farther than {largest * declared.scale:.2g} from the minimum"
        findings.add("fail", f"noise of scale {declared.scale:g} is not in the file: {farthest}")
    elif all_inside < FAINT:
        findings.add("review", f"hardly any noise of scale {declared.scale:g} is in the file")
    elif 1.0 - all_inside < ABSENT:
        findings.add(
            "review", "it is farther from the minimum than its noise: probably another table, penalty or scale"
        )
    return ModelLeakage.of(measured.leakage, measured.table, person=person)


def _centred(moved: FloatArray) -> FloatArray:
    """Of several classes: a shift of all of them changes no prediction, so the minimum has none."""
    return moved - moved.mean(axis=1, keepdims=True) if moved.ndim == 2 else moved
