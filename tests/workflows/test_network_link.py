"""A link that is cut, and all bytes that cross one: no id and no cell is among them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.deadlines import wait_until
from tests.models.consortium import patients, schema_for
from tests.models.study_parts import schema_with
from tests.workflows.network_link import Link
from tests.workflows.network_parts import RELEASED, Hospitals

pytestmark = pytest.mark.skipif(os.name == "nt", reason="a fork server")


def cut_in_the_middle(folder: Path, seconds: float) -> Hospitals:
    """A study during which the link of the second site is cut."""
    hospitals = Hospitals(folder, schema_for("logistic"), patients("logistic"))
    with Link(hospitals.port) as link:
        hospitals.set(2, "port", str(link.port))
        with hospitals.sites(delay=0.2), hospitals.coordinator_beside() as codes:
            assert wait_until(lambda: hospitals.has_in_hand(2, "newton"))
            link.cut_for(seconds)
            assert wait_until(lambda: codes)
    assert codes == [RELEASED]
    assert hospitals.people_booked_are_the_own_ones()
    return hospitals


def test_a_link_that_is_cut_for_a_while_only_costs_time(tmp_path: Path) -> None:
    cut_in_the_middle(tmp_path, 2.0)


@pytest.mark.slow
def test_a_link_that_is_cut_for_a_minute_only_costs_time(tmp_path: Path) -> None:
    cut_in_the_middle(tmp_path, 60.0)


STUDIES: dict[str, tuple[Any, str]] = {
    "model": (schema_for("logistic"), "fil=2"),
    "training": (
        schema_with(
            "class", patients=80, release={"name": "r1", "epsilon": 20.0, "delta": 1e-6},
            training={"rounds": 2, "patients-per-round": 100.0, "noise-multiplier": 1.5},
        ),
        "eps=50@1e-6",
    ),
    "components": (
        schema_with("number", release={"name": "r1", "epsilon": 2.0, "delta": 1e-6, "noise-at": "sites"},
                    loss="squared", l2=0.01),
        "eps=50@1e-6",
    ),
}  # fmt: skip


@pytest.mark.parametrize("study", STUDIES)
def test_no_id_and_no_cell_is_among_all_bytes_inside_the_tls_ends(study: str, tmp_path: Path) -> None:
    schema, budget = STUDIES[study]
    rows = patients("squared" if study == "components" else "logistic")
    rows["id"] = [f"CANARY{person}" for person in rows["id"]]
    hospitals = Hospitals(tmp_path, schema, rows, budget=budget)
    inside = (hospitals.coordinator, hospitals.places[1])
    with Link(hospitals.port, inside) as link:
        hospitals.set(2, "port", str(link.port))
        with hospitals.sites():
            assert hospitals.coordinate() == RELEASED
        recorded = bytes(link.recorded)
    assert b"/v1/answer" in recorded  # the recorder sees what is inside TLS
    assert b"CANARY" not in recorded
    part = hospitals.parts[1]
    for column, centre, half in (("age", 59.0, 41.0), ("bmi", 36.0, 24.0)):
        for u in np.asarray(part[column]).tolist():
            for number in (u, (u - centre) / half):
                assert np.float64(number).tobytes() not in recorded
            assert repr(u).encode() not in recorded
