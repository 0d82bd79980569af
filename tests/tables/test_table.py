"""Tables from every kind of frame, and the way back to the caller's kind."""

import subprocess
import sys
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dosimeter.core.errors import Refusal
from dosimeter.tables.table import Table, like, series_like

COLUMNS = {
    "age": [31, 54, 47],
    "bmi": [20.5, 31.25, 27.0],
    "city": ["Bern", "Graz", "Bern"],
    "ill": [True, False, True],
}


def nullable(frame: pd.DataFrame) -> pd.DataFrame:
    """pandas asks whether an infinite number is whole, of which numpy may warn."""
    with np.errstate(invalid="ignore"):
        return frame.convert_dtypes()


MAKERS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "pandas": pd.DataFrame,
    "pandas nullable": lambda columns: nullable(pd.DataFrame(columns)),
    "pandas arrow": lambda columns: pa.table(columns).to_pandas(types_mapper=pd.ArrowDtype),
    "pandas object": lambda columns: pd.DataFrame(columns, dtype=object),
    "polars": pl.DataFrame,
    "pyarrow": pa.table,
    "dict of lists": dict,
    "dict of arrays": lambda columns: {name: np.array(values) for name, values in columns.items()},
    "dict of series": lambda columns: {name: pd.Series(values) for name, values in columns.items()},
}
makers = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())


@makers
def test_every_kind_of_frame_gives_the_same_table(make: Callable[..., Any]) -> None:
    table = Table.of(make(COLUMNS))
    assert {name: table[name].tolist() for name in table.names} == COLUMNS
    assert [table.kind(name) for name in table.names] == ["number", "number", "text", "bool"]
    assert all(type(cell) is str for cell in table["city"])
    assert table.n == 3


@makers
@pytest.mark.parametrize("name", ["age", "city", "ill", "bmi"])
def test_a_missing_value_is_refused_with_its_place_or_left_out_and_counted(make: Any, name: str) -> None:
    if make is MAKERS["dict of arrays"]:
        make = MAKERS["dict of lists"]
    holed = dict(COLUMNS) | {name: [COLUMNS[name][0], None, COLUMNS[name][2]]}
    with pytest.raises(Refusal, match=rf"frame: missing value \(row 1 counted from 0, column {name}\): "):
        Table.of(make(holed))
    table = Table.of(make(holed), missing="drop")
    assert table["bmi"].tolist() == [20.5, 27.0]
    assert table["age"].tolist() == [31, 47]
    assert table.rows.tolist() == [0, 2]
    assert table.dropped == 1
    assert Table.of(make(holed), drop=[name]).n == 3


@makers
def test_a_number_that_is_not_finite_is_refused_under_either_policy(make: Callable[..., Any]) -> None:
    for missing in ("refuse", "drop"):
        with pytest.raises(Refusal, match=r"not finite \(row 2 counted from 0, column bmi\)"):
            Table.of(make(COLUMNS | {"bmi": [1.0, 2.0, float("inf")]}), missing=missing)  # type: ignore[arg-type]


@makers
def test_integers_that_float64_would_merge_are_refused_unless_they_are_text(make: Callable[..., Any]) -> None:
    frame = make(COLUMNS | {"age": [1, 2**53 + 1, 3]})
    with pytest.raises(Refusal, match=r"beyond 2\^53 \(row 1 counted from 0, column age\)"):
        Table.of(frame)
    assert Table.of(frame, text=["age"])["age"].tolist() == ["1", "9007199254740993", "3"]
    assert Table.of(make(COLUMNS | {"age": [2**53, -(2**53), 3]}))["age"][0] == 2.0**53


@pytest.mark.parametrize(
    "column",
    [
        pl.Series([date(2020, 1, 1)]),
        pl.Series([datetime(2020, 1, 1)]),
        pl.Series([timedelta(1)]),
        pd.Series(pd.to_datetime(["2020-01-01"])),
        pd.Series(pd.to_datetime(["2020-01-01"]).tz_localize("UTC")),
        np.array(["2020-01-01"], dtype="datetime64[D]"),
        pa.chunked_array([[date(2020, 1, 1)]]),
    ],
    ids=lambda column: str(getattr(column, "dtype", "arrow")),
)
def test_dates_are_refused_with_what_to_do(column: Any) -> None:
    with pytest.raises(Refusal, match=r"dates and times .*\(column born\): turn the column into a number"):
        Table.of({"born": column})


@pytest.mark.parametrize(
    "column",
    [
        pl.Series([[1]]),
        pl.Series([{"a": 1}]),
        pl.Series([b"x"]),
        pd.Series([{1}], dtype=object),
        pd.Series([1, "x"], dtype=object),
        [True, 2],
        [1j],
        np.array([1j]),
        np.array([b"x"]),
    ],
    ids=repr,
)
def test_values_of_other_kinds_are_refused_with_their_column(column: Any) -> None:
    with pytest.raises(Refusal, match="column odd"):
        Table.of({"odd": column})


def test_categories_are_text_whatever_they_are_made_of() -> None:
    frame = pd.DataFrame({"c": pd.Categorical(["b", "a", "b"]), "n": pd.Categorical([2, 1, 2])})
    assert Table.of(frame)["c"].tolist() == ["b", "a", "b"]
    assert Table.of(frame)["n"].tolist() == ["2", "1", "2"]
    assert Table.of(pl.DataFrame({"c": ["b", "a"]}, schema={"c": pl.Categorical})).kind("c") == "text"
    assert Table.of(pl.DataFrame({"c": ["b", "a"]}, schema={"c": pl.Enum(["a", "b"])}))["c"].tolist() == [
        "b",
        "a",
    ]
    assert Table.of(pa.table({"c": pa.array(["b", "a"]).dictionary_encode()}))["c"].tolist() == ["b", "a"]


def test_narrow_and_decimal_numbers_become_float64() -> None:
    frame = pl.DataFrame(
        {"f": pl.Series([0.5], dtype=pl.Float32), "d": [Decimal("1.25")], "u": pl.Series([7], dtype=pl.UInt8)}
    )
    table = Table.of(frame)
    assert [table[name].dtype for name in table.names] == [np.float64] * 3
    assert [table[name][0] for name in table.names] == [0.5, 1.25, 7.0]


def test_an_array_gets_names_and_keeps_its_kind() -> None:
    X = np.arange(6.0).reshape(3, 2)
    assert Table.of(X).names == ("x0", "x1")
    assert np.array_equal(np.column_stack(Table.of(X).columns), X)
    assert Table.of(X > 2).kind("x0") == "bool"
    assert Table.of(X.astype(np.float32))["x1"].dtype == np.float64
    with pytest.raises(Refusal, match=r"missing value \(row 1 counted from 0, column x0\)"):
        Table.of(np.ma.masked_array(X, mask=X == 2))


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (np.zeros(3), r"an array of shape \(3,\)"),
        ([1, 2], "a builtins.list is not a table"),
        ("x.csv", "not a table"),
        (pl.LazyFrame({"a": [1]}), "collect"),
        (pd.DataFrame([[1, 2, 3]], columns=["b", "a", "a"]), r"same name \(column a\)"),
        (pa.table([pa.array([1]), pa.array([2])], names=["a", "a"]), r"same name \(column a\)"),
        (pd.DataFrame([[1, 2]], columns=pd.MultiIndex.from_tuples([("a", "b"), ("a", "c")])), "is not text"),
        ({"a": [1], "b": [1, 2]}, "lengths"),
        ({"a": 1}, "single value"),
        ({"a": "text"}, "single value"),
        ({"": [1]}, "name of column 1 is empty"),
        ({"a": np.zeros((2, 2))}, "one value per row"),
        ({"a": {0: 1.5, 1: 2.5}}, r"a dict is not a column \(column a\)"),
        ({"a": {1.5, 2.5}}, "a set is not a column"),
        ({"a": {1.5: 0}.keys()}, "a dict_keys is not a column"),
        ({"a\x1b[2J": [None]}, r"a\\x1b\[2J"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_not_a_table_is_refused(frame: Any, message: str) -> None:
    with pytest.raises(Refusal, match=message) as caught:
        Table.of(frame)
    assert str(caught.value).isprintable()


def test_a_column_that_is_not_there_is_refused_with_a_hint() -> None:
    table = Table.of(COLUMNS)
    with pytest.raises(Refusal, match=r"no column bmy: did you mean bmi\?"):
        table["bmy"]
    with pytest.raises(Refusal, match="the columns are age, bmi, city, ill"):
        table.drop(["zzzzzz"])
    with pytest.raises(Refusal, match="no column agee"):
        Table.of(COLUMNS, text=["agee"])
    with pytest.raises(Refusal, match="use refuse, drop or impute"):
        Table.of(COLUMNS, missing="ignore")  # type: ignore[arg-type]


def test_rows_that_are_taken_remember_their_positions() -> None:
    table = Table.of(COLUMNS).take([2, 0])
    assert table["age"].tolist() == [47, 31]
    assert table.take(np.array([False, True])).rows.tolist() == [0]
    assert table.drop(["age", "city"]).names == ("bmi", "ill")
    assert table.drop(table.names).n == 2


def test_a_table_cannot_be_changed_and_does_not_lock_the_callers_array() -> None:
    mine = np.arange(3.0)
    table = Table.of({"x": mine})
    with pytest.raises(ValueError, match="read-only"):
        table["x"][0] = 9
    mine[0] = 5


def test_a_table_made_by_hand_is_checked() -> None:
    with pytest.raises(Refusal, match="2 names, 1 columns"):
        Table(("a", "b"), (np.zeros(2),))
    with pytest.raises(Refusal, match="one length"):
        Table(("a", "b"), (np.zeros(2), np.zeros(3)))
    with pytest.raises(Refusal, match="dtype int64"):
        Table(("a",), (np.zeros(2, dtype=np.int64),))


def test_figures_go_back_to_pandas_under_the_same_index() -> None:
    frame = pd.DataFrame(COLUMNS, index=["p", "q", "r"])
    frame_of_figures = like(frame, {"eta": np.array([0.1, 0.2, 0.3]), "id": np.array(["a", "b", "c"], dtype=object)})
    pd.testing.assert_frame_equal(
        frame_of_figures, pd.DataFrame({"eta": [0.1, 0.2, 0.3], "id": ["a", "b", "c"]}, index=["p", "q", "r"])
    )
    some = like(frame, {"eta": np.array([0.1, 0.3])}, rows=np.array([0, 2]))
    assert some.index.tolist() == ["p", "r"]
    series = series_like(frame, "eta", np.array([0.1, 0.2, 0.3]))
    pd.testing.assert_series_equal(series, pd.Series([0.1, 0.2, 0.3], index=["p", "q", "r"], name="eta"))


def test_figures_go_back_to_polars_and_pyarrow_and_dicts() -> None:
    figures = {"eta": np.array([0.1, 0.2, 0.3]), "id": np.array(["a", "b", "c"], dtype=object)}
    frame = like(pl.DataFrame(COLUMNS), figures)
    assert frame.equals(pl.DataFrame({"eta": [0.1, 0.2, 0.3], "id": ["a", "b", "c"]}))
    arrow = like(pa.table(COLUMNS), figures)
    assert arrow.to_pydict() == {"eta": [0.1, 0.2, 0.3], "id": ["a", "b", "c"]}
    assert isinstance(series_like(pl.DataFrame(COLUMNS), "eta", figures["eta"]), pl.Series)
    assert isinstance(series_like(pa.table(COLUMNS), "eta", figures["eta"]), pa.ChunkedArray)
    assert like(np.zeros((3, 2)), figures)["eta"].tolist() == [0.1, 0.2, 0.3]
    assert series_like({"a": [1, 2, 3]}, "eta", figures["eta"]).tolist() == [0.1, 0.2, 0.3]


@given(
    st.lists(
        st.tuples(st.floats(allow_nan=False, allow_infinity=False), st.text(), st.booleans()),
        min_size=1,
        max_size=20,
    )
)
def test_a_table_survives_the_way_there_and_back(rows: list[tuple[float, str, bool]]) -> None:
    columns = dict(zip("xcb", map(list, zip(*rows, strict=True)), strict=True))
    for make in (pd.DataFrame, pl.DataFrame, pa.table):
        frame = make(columns)
        table = Table.of(frame)
        again = Table.of(like(frame, dict(zip(table.names, table.columns, strict=True))))
        assert {name: again[name].tolist() for name in again.names} == columns


def test_reading_tables_imports_no_heavy_library() -> None:
    modules = ["tables.encoding", "tables.learned_encoding", "tables.read", "adapters.read_model", "files.csv_export"]
    heavy = {"pandas", "polars", "pyarrow", "sklearn", "scipy", "skops"}
    code = (
        "import sys\n"
        + "".join(f"import dosimeter.{name}\n" for name in modules)
        + f"print({heavy} & set(sys.modules))"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout.strip() == "set()"


def test_all_columns_with_missing_values_are_named_at_once() -> None:
    columns = {"age": [31, None, 47], "city": [None, "Ulm", None], "bmi": [20.5, 21.0, 27.0]}
    with pytest.raises(
        Refusal, match=r"\(row 0 .*, column city\): .*; columns with missing values: age \(1\), city \(2\)$"
    ):
        Table.of(columns)
    with pytest.raises(Refusal) as caught:
        Table.of(columns, drop=["city"])
    assert "columns with missing values" not in str(caught.value)
