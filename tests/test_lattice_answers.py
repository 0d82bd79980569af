"""The lattice attack on answers: their last digits are noise, whatever the attacker knows of the table.

The attacker knows every row but one cell, refits the model with each value that the cell may have, and looks at what
the exact answers and statistics of that table leave of the answers. Where noise of a grid was added to exact answers,
the rest is on the grid for the true value alone: that is the control.
"""

from __future__ import annotations

import json

import numpy as np
import pytest

import dosimeter as dm
from dosimeter import glm
from dosimeter.noise_addition import grid_of
from dosimeter.reports.document import document
from tests.lattice import Guess, attack, no_better_than_chance, numbers_in, repeated, statistics
from tests.test_lattice import AGES, people, with_cell

OTHERS = {"score": ("ill",), "ill": ("score",), "ward": ("ill", "score")}
ROWS = (0, 7, 21, 34)
NOISE = dm.Gaussian(0.5)
KINDS = [("score", "margins"), ("ill", "margins"), ("ill", "predictions"), ("ward", "predictions")]


def queries(target: str) -> dict[str, list]:
    """Public rows; few digits, so that only answers have many."""
    rows = {
        "age": [20.0 + 3 * k for k in range(20)],
        "bmi": [20.0 + k % 17 for k in range(20)],
        "ward": [("east", "north", "south")[k % 3] for k in range(20)],
    }
    return {name: cells for name, cells in rows.items() if name != target}


def measured(table: dict[str, list], target: str, answer: str):
    named = table | {"id": [f"p{k}" for k in range(len(table["age"]))]}
    return dm.measure(
        named, target=target, exclude=OTHERS[target], person="id", release="predictions", queries=queries(target),
        noise=NOISE, answer=answer,
    )  # fmt: skip


def refitted(table: dict[str, list], row: int, target: str, answer: str) -> list[tuple[np.ndarray, np.ndarray]]:
    """For each age that the cell may have: statistics of the column, and the exact answers of the refitted model."""
    result = []
    for age in AGES:
        candidate = with_cell(table, row, "age", age)
        leak = measured(candidate, target, answer)
        exact = leak.model.answers(leak.model.read(queries(target)), glm.Answer(answer)).ravel()
        result.append((statistics(np.array(candidate["age"], float)), exact))
    return result


def attacked(draw, target: str, answer: str):
    """Outcomes for each row, from three draws of answers to one list."""
    table = people()
    drawn = [draw() for _ in range(3)]
    outcomes = []
    for row in ROWS:
        candidates, true = refitted(table, row, target, answer), AGES.index(table["age"][row])
        draws = []
        for answered in drawn:
            guesses = [Guess(facts, answered - exact, np.abs(answered) + 1.0) for facts, exact in candidates]
            draws.append(attack(json.dumps(answered.tolist()).encode(), guesses, true))
        outcomes.append(repeated(draws))
    return outcomes


@pytest.mark.parametrize(("target", "answer"), KINDS)
def test_the_attack_finds_nothing_in_the_answers_of_a_gateway(target, answer, tmp_path):
    leak = measured(people(), target, answer)
    with dm.Ledger.create(tmp_path / "l.db") as ledger:
        gateway = dm.Gateway(leak, ledger, budget=1e6)
        found = attacked(lambda: np.ravel(gateway.answer(queries(target))), target, answer)
        stored = [ledger.artefact(entry.name) for entry in ledger.releases()]
    assert no_better_than_chance(found)
    assert all(len(numbers_in(data)) for data in stored)


@pytest.mark.parametrize(("target", "answer"), KINDS)
def test_the_attack_names_the_cell_where_noise_of_a_grid_was_added_to_exact_answers(target, answer):
    leak, g = measured(people(), target, answer), grid_of(NOISE)
    truth = leak.model.answers(leak.model.read(queries(target)), glm.Answer(answer)).ravel()
    rng = np.random.default_rng(2)
    found = attacked(lambda: truth + g * np.rint(rng.normal(0, 0.5, len(truth)) / g), target, answer)
    assert sum(one.found for one in found) == len(ROWS)
    assert not no_better_than_chance(found * 3)


def test_what_is_published_of_measured_answers_is_the_same_for_a_neighbouring_table():
    """The public edition holds queries and noise, and no number of the table."""
    base = people()
    other = with_cell(base, 4, "age", 19 if base["age"][4] != 19 else 20)
    for target, answer in KINDS:
        results = [measured(table, target, answer).result(limit=5.0) for table in (base, other)]
        assert results[0].to_html("external") == results[1].to_html("external")
        assert document(results[0], "external").figures == document(results[1], "external").figures
        assert results[0].to_html("internal") != results[1].to_html("internal")
