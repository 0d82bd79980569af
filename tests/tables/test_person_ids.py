"""One person under one id in every verb that computes a figure for a person, as in the ledger."""

from __future__ import annotations

import unicodedata
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge

import dosimeter as dm
from dosimeter.core.accounts import text_of
from dosimeter.models.federated_rows import table_clients
from dosimeter.tables.person_ids import id_remarks_of_people, same_people
from dosimeter.workflows.people_table import every_value

RNG = np.random.default_rng(8)
N = 80
CLEAN = [f"José {k // 2}" for k in range(N)]
SPELLED = [
    (lambda name: [name, f"{name} ", f"\t{name}", unicodedata.normalize("NFD", name)][k % 4])(name)
    for k, name in enumerate(CLEAN)
]
FRAME = pd.DataFrame({"who": CLEAN, "age": RNG.normal(50, 10, N), "bmi": RNG.normal(27, 4, N)})
FRAME["cost"] = FRAME["age"] / 10 + RNG.normal(size=N)
NOISE = dm.Gaussian(0.5)


def spelled(who: Any = SPELLED) -> pd.DataFrame:
    return FRAME.assign(who=who)


def test_the_example_is_one_person_for_the_ledger() -> None:
    assert len(set(SPELLED)) == 2 * len(set(CLEAN))
    assert {text_of(name) for name in SPELLED} == {text_of(name) for name in CLEAN}


def test_spellings_of_one_id_are_one_person_in_measure_and_fix(tmp_path) -> None:
    clean = dm.measure(FRAME, target="cost", person="who", noise=NOISE)
    assert dm.measure(spelled(), target="cost", person="who", noise=NOISE).persons == clean.persons
    spelled().to_csv(tmp_path / "t.csv", index=False)
    assert dm.measure(tmp_path / "t.csv", target="cost", person="who", noise=NOISE).persons == pytest.approx(
        clean.persons, rel=1e-9
    )
    released = dm.fix(spelled(), "cost", person="who", scale=1.0, even_if_useless=True)
    assert released.result.people == len(set(CLEAN))


def test_spellings_of_one_id_are_one_person_of_a_given_model() -> None:
    table, model = FRAME[["age", "bmi"]], Ridge().fit(FRAME[["age", "bmi"]], FRAME["cost"])
    clean = dm.measure(model, table, FRAME["cost"], person=CLEAN, noise=NOISE)
    same = dm.measure(model, table, FRAME["cost"], person=SPELLED, noise=NOISE).persons
    assert list(same.values()) == list(clean.persons.values())
    assert list(same) == SPELLED[::2]  # the first spelling of each
    mixed = [17 if name == CLEAN[0] and k % 2 else "17" if name == CLEAN[0] else name for k, name in enumerate(CLEAN)]
    assert len(dm.measure(model, table, FRAME["cost"], person=mixed, noise=NOISE).persons) == len(clean.persons)


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_spellings_of_one_id_are_one_person_in_blocks(ending: str, tmp_path) -> None:
    order = np.argsort(np.arange(N) % 7, kind="stable")  # rows of a person are not adjacent
    for name, frame in (("clean", FRAME), ("spelled", spelled())):
        rows, path = frame.iloc[order], tmp_path / f"{name}.{ending}"
        rows.to_parquet(path, row_group_size=16, index=False) if ending == "parquet" else rows.to_csv(path, index=False)
    figures = [
        dm.measure(tmp_path / f"{name}.{ending}", target="cost", person="who", noise=NOISE, engine="blocks")
        for name in ("clean", "spelled")
    ]
    assert [leak.result().people for leak in figures] == [len(set(CLEAN))] * 2
    assert figures[1].highest == pytest.approx(figures[0].highest, rel=1e-9)


def test_spellings_of_one_id_are_one_person_of_components_and_votes(tmp_path) -> None:
    for frame in (FRAME, spelled()):
        made = dm.components(frame, person="who", epsilon=1.0, bounds=_bounds(tmp_path))
        assert {len(dose.ids) for dose in made.doses} == {len(set(CLEAN))}
    assert every_value(spelled(), "who") == [text_of(name) for name in CLEAN]


def test_spellings_of_one_id_are_one_client() -> None:
    frame = spelled().assign(ill=np.resize(["yes", "no"], N))
    people = table_clients(frame, "ill", "who")
    assert people.names == tuple(sorted(set(CLEAN)))
    assert not [note for note in people.remarks if "capitals" in note]


def _bounds(folder: Any) -> Any:
    path = folder / "bounds.toml"
    limits = {"age": (0, 120), "bmi": (10, 60), "cost": (-5, 20)}
    path.write_text("".join(f"[{name}]\nlower = {low}\nupper = {high}\n" for name, (low, high) in limits.items()))
    return path


def test_ids_that_may_be_one_person_are_named_by_their_number_alone() -> None:
    whos = [name.upper() if k % 2 else name for k, name in enumerate(CLEAN)]
    leak = dm.measure(spelled(whos), target="cost", person="who", noise=NOISE)
    assert len(leak.persons) == 2 * len(set(CLEAN))
    (remark,) = [remark for remark in leak.result().remarks if "capitals" in remark]
    assert remark.startswith("40 ids of persons differ")
    assert "Jos" not in remark
    for twice in (["007", "7"], ["P\u200b1", "P1"], ["ann lee", "ann  lee"]):
        assert id_remarks_of_people(twice)[0].startswith("1 id of a person differs")
    assert id_remarks_of_people(["0", "00", "1"])[0].startswith("1 id")
    assert not id_remarks_of_people(["10", "1", "P1", "P2"])


def test_same_people_keeps_the_first_spelling_and_ids_of_other_kinds() -> None:
    assert same_people([" b", "b", ("b",), 1, "1", 2.5]) == (" b", " b", ("b",), 1, 1, 2.5)
