"""`dm.components` from Python: files and dataframes alike, options worded for Python, nothing released unproved."""

from __future__ import annotations

import numpy as np
import pytest

import dosimeter as dm
from dosimeter.core.accounts import SharedEventDose
from tests.cli.test_pca import BOUNDS, PEOPLE, csv

pd = pytest.importorskip("pandas")

AS_DICT = {
    "age": {"lower": 18, "upper": 100},
    "weight": {"lower": 30, "upper": 150, "centre": 60},
    "height": {"lower": 120, "upper": 210},
    "city": {"levels": ["Bonn", "Graz", "Ulm"]},
}


def public(released):
    """All that does not depend on the draw of the noise."""
    fields = released.result.to_dict()
    inside = fields.pop("internal")
    return fields, inside["dose"], inside["membership"], inside["ranked"], inside["rows_left_out"]


def test_a_file_a_frame_and_a_dict_give_the_same_figures(tmp_path):
    table, bounds = tmp_path / "people.csv", tmp_path / "bounds.toml"
    table.write_text(csv(PEOPLE))
    bounds.write_text(BOUNDS)
    options = {"person": "id", "epsilon": 1, "components": 2}
    expected = public(dm.components(table, bounds=bounds, **options))
    assert public(dm.components(str(table), bounds=AS_DICT, **options)) == expected
    assert public(dm.components(pd.read_csv(table), bounds=AS_DICT, **options)) == expected
    assert public(dm.components(PEOPLE, bounds=str(bounds), **options)) == expected


def test_a_cell_that_is_no_number_is_a_gap_in_a_frame_as_in_a_file(tmp_path):
    table = tmp_path / "people.csv"
    frame = pd.DataFrame(PEOPLE)
    frame["age"] = frame["age"].astype(object)
    frame.loc[7, "age"] = "abc"
    frame.loc[9, "age"] = np.inf
    frame.to_csv(table, index=False)
    options = {"person": "id", "epsilon": 1, "components": 2, "bounds": AS_DICT}
    of_file, of_frame = (dm.components(data, **options) for data in (table, frame))
    assert of_frame.result.internal.rows_left_out == of_file.result.internal.rows_left_out == 2
    assert of_frame.result.people_public == of_file.result.people_public == 150
    ids = [next(d.ids for d in r.doses if isinstance(d, SharedEventDose)) for r in (of_file, of_frame)]
    assert ids[0] == ids[1]


def test_the_model_is_scikit_learns_and_the_doses_are_for_people():
    released = dm.components(pd.DataFrame(PEOPLE), person="id", epsilon=1, bounds=AS_DICT, components=0.9)
    assert type(released.model).__module__.startswith("sklearn.")
    assert released.model.transform(pd.DataFrame(PEOPLE)).shape[1] == released.result.components.released
    assert released.result.components.share_of_noisy_variance == 0.9
    event, eta, mu = released.doses
    assert len(event.ids) == len(eta.ids) == len(mu.ids) == 150
    assert released.recipe.settings["components"] == released.result.components.released
    assert released.noise_fingerprint != dm.components(PEOPLE, person="id", epsilon=1, bounds=AS_DICT).noise_fingerprint


def test_without_a_person_or_without_bounds_there_is_nothing_to_book():
    rows = dm.components(pd.DataFrame(PEOPLE).drop(columns="id"), epsilon=1, bounds=AS_DICT)
    unbounded = dm.components(PEOPLE, person="id", epsilon=1, not_private=True)
    assert rows.doses == unbounded.doses == ()
    assert rows.result.guarantee.unit == "row"
    assert unbounded.result.private is False
    assert unbounded.artefact


def test_nothing_is_released_if_the_noise_does_not_prove_the_budget(tmp_path):
    released = dm.components(
        PEOPLE, person="id", epsilon=30, delta=1e-3, bounds=AS_DICT, mechanism="published-analyze-gauss"
    )
    assert not released.result.guarantee.holds
    assert (released.artefact, released.model) == (b"", None)
    with pytest.raises(dm.Refusal, match="nothing was released"):
        released.write(tmp_path / "c.skops")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "state a budget: epsilon=1"),
        ({"epsilon": 1}, 'no bounds: .* pass bounds="FILE", or not_private='),
        ({"epsilon": 1, "bounds": AS_DICT, "not_private": True}, "bounds= and not_private="),
        ({"epsilon": 0, "bounds": AS_DICT}, "epsilon=0.0: give a finite number above 0"),
        ({"epsilon": 1e9, "bounds": AS_DICT}, "epsilon=1000000000.0: give a number from"),
        ({"epsilon": 1, "bounds": AS_DICT, "components": 7}, "components=7: give a whole number from 1 to 6"),
        ({"epsilon": 1, "bounds": AS_DICT, "components": 1.5}, "components=1.5: give a whole number"),
        ({"epsilon": 1, "bounds": AS_DICT, "categorical": ["age"]}, 'categorical="age": the bounds declare'),
        ({"epsilon": 1, "bounds": AS_DICT, "mechanism": "gauss"}, 'mechanism="gauss" is not known'),
        ({"epsilon": 1, "bounds": AS_DICT, "neighbours": "add-or-remove"}, 'neighbours="add-or-remove" hides'),
        ({"epsilon": 1, "bounds": AS_DICT, "mean_share": 1.0}, "mean_share=1.0: give a number from 0"),
        ({"epsilon": 1, "bounds": {"age": {"lower": 1, "upper": 2}}}, 'leave it out: exclude="weight"'),
    ],
)
def test_a_refusal_names_the_option_as_python_writes_it(options, message):
    with pytest.raises(dm.Refusal, match=message):
        dm.components(PEOPLE, person="id", **options)


def test_the_template_of_a_frame_names_its_columns():
    text = dm.bounds_template(pd.DataFrame(PEOPLE), person="id", exclude=["city"])
    assert [line for line in text.splitlines() if line.startswith("[")] == ["[age]", "[weight]", "[height]"]
    with pytest.raises(dm.Refusal, match="there is no column town"):
        dm.bounds_template(PEOPLE, exclude=["town"])


def test_the_demonstration_needs_no_table_and_takes_no_bounds():
    released = dm.components()
    assert released.result.rows_public == 1797
    assert released.result.attack is not None
    with pytest.raises(dm.Refusal, match="without a table"):
        dm.components(bounds=AS_DICT)
