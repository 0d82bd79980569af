"""Bookings for the tests of the ledger."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import numpy as np
from dp_accounting import GaussianDpEvent

from dosimeter.core.accounts import Booking, SharedEventDose
from dosimeter.core.dose import Dose, EventDose
from dosimeter.core.fisher_block import FisherBlock
from dosimeter.core.notion import FISHER, LEAKAGE, MEMBERSHIP, Notion
from dosimeter.core.release import Recipe

RECIPE = Recipe("weights", "Gaussian(sigma=0.5)", {"loss": "squared", "l2": 0.01})
PEOPLE = ("ann", "bob", "eve")


def dose(readings: dict[Any, float], notion: Notion = FISHER, **fields: Any) -> Dose:
    fields = {"measured_in": "standard deviations", **fields}
    return Dose.of_figures(notion, fields.pop("unit", "person"), list(readings), list(readings.values()), **fields)


def with_blocks(bare: Dose) -> Dose:
    """The same dose with a small Fisher matrix for each person."""
    return replace(
        bare, fisher_blocks=tuple(FisherBlock(("0/age", "0/label"), np.diag([v, v / 2])) for v in bare.amounts)
    )


def events(ids: Any, noise: float = 5.0, adjacency: str = "replace-one", unit: str = "person") -> SharedEventDose:
    return SharedEventDose(tuple(ids), EventDose(GaussianDpEvent(noise), unit, adjacency))


def booking(name: str = "may", *doses: Any, **changes: Any) -> Booking:
    """A booking with random bytes as its noise: two calls give two artefacts."""
    noise = os.urandom(16)
    fields = {"artefact": b"model " + noise, "noise_fingerprint": noise, "recipe": RECIPE, **changes}
    return Booking(name=name, doses=doses or (dose(dict.fromkeys(PEOPLE, 0.1)),), **fields)


def of_all_kinds(name: str) -> Booking:
    """A booking with every notion, two adjacencies, and two groups of people with different events."""
    ids = [f"person {k}" for k in range(12)]
    levels = np.linspace(0.01, 0.05, 12)
    return booking(
        name,
        dose(dict(zip(ids, levels, strict=True))),
        with_blocks(dose(dict(zip(ids, levels, strict=True)), measured_in="own units")),
        dose(dict(zip(ids, 10 * levels, strict=True)), MEMBERSHIP),
        dose(dict(zip(ids[:5], 2 * levels[:5], strict=True)), LEAKAGE, not_covered=("a tuned scale",)),
        events(ids[:8], 20.0),
        events(ids[8:], 10.0),
        events(ids, 20.0, "add-or-remove-one"),
        note="monthly",
        to="Hospital B",
    )
