"""The encoding of a fit: the design against scikit-learn's encoders, its derivative against finite differences."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dosimeter.core.category import simplex
from dosimeter.core.errors import Refusal
from dosimeter.tables.column_encoding import CategoryColumn, NumberColumn
from dosimeter.tables.encoding import TableEncoding
from dosimeter.tables.learned_encoding import learn_encoding
from dosimeter.tables.table import Table


def people(n: int = 40) -> Table:
    rng = np.random.default_rng(3)
    return Table.of(
        {
            "age": rng.integers(20, 80, n),
            "race": rng.choice(["white", "black", "asian"], n).astype(object),
            "income": rng.lognormal(10, 1, n),
            "ill": rng.random(n) < 0.3,
            "site": rng.choice([10, 9, 101], n),
        }
    )


def test_numbers_are_standardised_and_levels_stand_on_the_corners_of_a_simplex() -> None:
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    table = people()
    columns = learn_encoding(table, categorical=["site"])
    assert columns.names == ("age", "race=black", "race=white", "income", "ill", "site=10", "site=101")
    X = columns.design(table)
    numbers = np.column_stack([table["age"], table["income"]])
    assert np.allclose(X[:, [0, 3]], StandardScaler().fit_transform(numbers), rtol=1e-12, atol=1e-12)
    one_hot = OneHotEncoder(sparse_output=False)
    for columns_of, name in ((X[:, 1:3], "race"), (X[:, 5:], "site")):
        levels = one_hot.fit_transform(table[name][:, None])
        # One-hot rows are √2 apart: centred and shrunk by that they have the same distances and so the same products.
        centred = (levels - 1 / 3) / np.sqrt(2)
        np.testing.assert_allclose(columns_of @ columns_of.T, centred @ centred.T, atol=1e-14)
    assert np.array_equal(X[:, 4], table["ill"].astype(float) - 0.5)


@pytest.mark.parametrize("levels", [2, 3, 4, 7, 50])
def test_the_corners_are_one_apart_and_centred(levels: int) -> None:
    V = simplex(levels)
    apart = np.linalg.norm(V[:, None] - V[None], axis=2)
    np.testing.assert_allclose(apart, 1 - np.eye(levels), atol=1e-14)
    np.testing.assert_allclose(V.sum(axis=0), 0.0, atol=1e-14)


def test_the_derivative_is_that_of_the_design_in_original_units() -> None:
    table = people()
    columns = learn_encoding(table)
    X, step = columns.design(table), 1e-3
    for name in ("age", "income", "site"):
        moved = Table(
            table.names,
            tuple(c + step if k == name else c for k, c in zip(table.names, table.columns, strict=True)),
        )
        (j,) = columns.block(name)
        slope = (columns.design(moved) - X) / step
        assert np.allclose(slope, columns.input_map[:, j], rtol=1e-6, atol=1e-9)


def test_an_indicator_is_its_own_unknown() -> None:
    columns = learn_encoding(people())
    for j in columns.block("race") + columns.block("ill"):
        assert columns.input_map[j].tolist() == np.eye(len(columns.names))[j].tolist()
    assert columns.unknowns == columns.names
    assert [columns.names[j] for j in columns.blocks["race"]] == ["race=black", "race=white"]
    assert sorted(j for block in columns.blocks.values() for j in block) == list(range(len(columns.unknowns)))


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6))
def test_a_change_of_units_changes_only_centre_and_scale(shift: float, factor: float) -> None:
    u = np.random.default_rng(0).normal(size=30)
    if factor < 1e-9 * abs(shift):
        shift = 0.0
    metric, other = Table.of({"u": u}), Table.of({"u": u * factor + shift})
    a, b = learn_encoding(metric), learn_encoding(other)
    assert np.allclose(a.design(metric), b.design(other), atol=1e-5)
    assert np.isclose(b.scale[0], a.scale[0] * factor, rtol=1e-5)


def test_constant_columns_are_left_out_with_a_note_and_never_divided_by() -> None:
    table = Table.of({"x": [1.0, 2.0, 3.0], "one": [0.1] * 3, "c": ["a"] * 3, "b": [True] * 3})
    columns = learn_encoding(table, categorical=["one"])
    assert columns.names == ("x",)
    assert columns.constant == ("one", "c", "b")
    assert "column one has one value only" in columns.remarks[0]
    with pytest.raises(Refusal, match="no column varies"):
        learn_encoding(table.drop(["x"]))


@pytest.mark.parametrize("size", [1e-140, 1e-20, 1.0, 1e20, 1e140])
def test_numbers_of_any_usual_size_are_standardised(size: float) -> None:
    table = Table.of({"x": np.array([-1.0, 0.0, 1.0, 2.0]) * size})
    X = learn_encoding(table).design(table)
    assert np.isclose(X.std(), 1)
    assert np.isclose(X.mean(), 0, atol=1e-12)


@pytest.mark.parametrize(
    "values", [[1e308, -1e308, 0], [1e-308, 2e-308, 0], [1.7e308, 1.7e308, -1.7e308], [5e-324, 0, 0]]
)
def test_numbers_whose_squares_leave_float64_are_refused(values: list[float]) -> None:
    with pytest.raises(Refusal, match="change its units"):
        learn_encoding(Table.of({"x": values}))


def test_a_number_that_hardly_varies_is_refused() -> None:
    with pytest.raises(Refusal, match="subtract a fixed number"):
        learn_encoding(Table.of({"x": [1e15, 1e15 + 1, 1e15]}))


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (
            [f"p{i}" for i in range(60)],
            'different value in each row: looks like an identifier; pass person="c" or exclude="c"',
        ),
        (
            [f"p{i // 1.1 // 1}" for i in range(60)],
            'has 54 levels in 60 rows: looks like an identifier; .* or categorical="c" if it is a category$',
        ),
        ([f"{i}.5 kg" for i in range(60)], "its cells are numbers with a unit or sign: write numbers alone, or"),
        ([f"€{i}" for i in range(60)], "its cells are numbers with a unit or sign"),
        ([f"12:{i:02}" for i in range(60)], "its cells are times"),
        ([f"2020-01-{i % 28 + 1:02}" for i in range(60)], "holds dates"),
        ([f"{i % 28 + 1}.1.1999" for i in range(60)], "holds dates"),
    ],
)
def test_identifiers_and_dates_are_refused_with_advice(column: list[str], message: str) -> None:
    with pytest.raises(Refusal, match=message):
        learn_encoding(Table.of({"x": range(60), "c": column}))


def test_an_identifier_is_suggested_as_the_person_column_only_where_it_can_be_one() -> None:
    with pytest.raises(Refusal, match=r'identifier; pass exclude="c"$'):
        learn_encoding(Table.of({"x": range(9), "c": [f"p{i}" for i in range(9)]}), may_name_person=False)


def test_a_declared_nominal_number_with_too_many_levels_is_refused() -> None:
    with pytest.raises(Refusal, match="looks like an identifier"):
        learn_encoding(Table.of({"x": np.arange(60.0)}), categorical=["x"])
    table = Table.of({"x": np.arange(60.0) // 2})
    assert len(learn_encoding(table.take(range(40)), categorical=["x"]).names) == 19
    assert learn_encoding(table, categorical=["x"], max_levels=30).names[0] == "x=1"


def test_a_code_of_many_levels_that_many_rows_share_is_a_category_up_to_a_limit_of_size() -> None:
    table = Table.of({"zip": [f"z{k % 300:03}" for k in range(1500)]})
    assert len(learn_encoding(table, max_levels=300).names) == 299
    with pytest.raises(Refusal, match=r"has 300 levels and at most 256 are taken here: pool .*, or pass exclude="):
        learn_encoding(table)


def test_levels_of_numbers_are_sorted_as_numbers_and_written_short() -> None:
    table = Table.of({"x": [10.0, 9.0, 2.5, 10.0]})
    assert learn_encoding(table, categorical=["x"]).sources == (CategoryColumn("x", ("2.5", "9", "10")),)


def test_new_rows_are_read_by_the_old_recipe_and_unknown_levels_are_refused() -> None:
    table = Table.of({"x": [0.0, 2.0, 4.0], "c": ["a", "b", "a"]})
    columns = learn_encoding(table)
    assert np.array_equal(columns.design(table.take([1])), columns.design(table)[[1]])
    with pytest.raises(Refusal, match=r"the fit did not have \(row 1 counted from 0, column c\)"):
        columns.design(Table.of({"x": [0.0, 1.0], "c": ["a", "z"]}))
    with pytest.raises(Refusal, match="was a number and is text"):
        columns.design(Table.of({"x": ["u", "v"], "c": ["a", "b"]}))
    with pytest.raises(Refusal, match="no column c"):
        columns.design(table.drop(["c"]))


def test_a_recipe_can_be_declared_instead_of_learned() -> None:
    columns = TableEncoding((NumberColumn("age", centre=50, scale=10), CategoryColumn("sex", ("f", "m"))))
    table = Table.of({"sex": ["m", "f"], "age": [60, 45]})
    assert columns.design(table).tolist() == [[1.0, 0.5], [-0.5, -0.5]]


@pytest.mark.parametrize("columns", [{"a=1": [0.5, 1.0, 0.0], "a": ["0", "1", "1"]}])
def test_two_numbers_of_one_name_are_refused(columns: dict[str, Any]) -> None:
    with pytest.raises(Refusal, match="rename the column"):
        learn_encoding(Table.of(columns))


def test_a_column_that_is_not_in_the_design_is_refused() -> None:
    with pytest.raises(Refusal, match="in the design: did you mean race"):
        learn_encoding(people()).block("rase")
