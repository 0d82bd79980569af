"""Preprocessing before a model: one registered reader for each kind of step (`registry.py`)."""

import dosimeter.adapters.formulas  # noqa: F401  a formula is registered there
from dosimeter.adapters.steps import (
    bins,
    containers,
    functions,
    imputers,
    kernel_maps,
    normalizer,
    one_hot,
    ordinal,
    polynomials,
    powers,
    projections,
    quantiles,
    refused,
    scalers,
    selectors,
    splines,
    text,
)
from dosimeter.adapters.steps.registry import STEPS, Route, StepKind, apply, step

__all__ = [
    "STEPS",
    "Route",
    "StepKind",
    "apply",
    "bins",
    "containers",
    "functions",
    "imputers",
    "kernel_maps",
    "normalizer",
    "one_hot",
    "ordinal",
    "polynomials",
    "powers",
    "projections",
    "quantiles",
    "refused",
    "scalers",
    "selectors",
    "splines",
    "step",
    "text",
]
