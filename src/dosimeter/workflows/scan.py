"""`dm.scan`: what a model file holds about people, without ever unpickling it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dosimeter.core.checks import positive
from dosimeter.core.errors import Refusal
from dosimeter.core.face import option
from dosimeter.results.scan import ScanReport
from dosimeter.scanner import Scan
from dosimeter.scanner import scan as scan_file
from dosimeter.scanner.redacted_file import redacted
from dosimeter.tables.table import Table
from dosimeter.workflows.people_table import Names, as_names, read_people, to_find


def scan(
    file: str | Path,
    *,
    data: Any = None,
    person: str | None = None,
    show_ids: bool = False,
    redact: str | Path | None = None,
    tolerance: float | None = None,
    exclude: Names = (),
    missing: str = "refuse",
    delimiter: str = ",",
    decimal: str = ".",
) -> ScanReport:
    """Look for training rows, single people's values, statistics and lists in a model file. Nothing in it is run.

    Parameters
    ----------
    file
        The model: .skops, .onnx, .safetensors, .npz, .npy or .json; .pkl, .joblib, .pt or .rds, which are read without
        running anything in them; with `data` also .h5, .ubj and .pmml, whose bytes are searched. Or a folder, a .zip or
        a .tar of such files.
    data
        The training table, a dataframe or a path: its rows that are in the file are named.
    person, show_ids
        The column that says whose row it is, and whether to name the people whose rows were found.
    redact
        Write the same model without the people in it to this place: a .skops or .npz file, or a folder of MLflow.
        Refused if its predictions would change or people would still be inside.
    tolerance
        Relative difference up to which two numbers are the same. By default what the file's precision allows.
    exclude, missing, delimiter, decimal
        How the table is read.

    Returns
    -------
    ScanReport
        `people_inside` says whether rows or single people's values are in the file.

    Raises
    ------
    Refusal
        The file cannot be read safely, or options contradict each other.

    Examples
    --------
    >>> import numpy as np, dosimeter as dm
    >>> from tempfile import TemporaryDirectory
    >>> rows = np.random.default_rng(0).normal(size=(30, 3))
    >>> with TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/model.npy", rows)
    ...     dm.scan(f"{folder}/model.npy", data={"a": rows[:, 0], "b": rows[:, 1], "c": rows[:, 2]}).people_inside
    True
    """
    if data is None and person is not None:
        raise Refusal(f"{option('person')}: there is no table: pass {option('data')} as well")
    if show_ids and person is None:
        both = f"{option('data')} and {option('person')}"
        raise Refusal(f"{option('show_ids')}: say which column they are in: pass {both} as well")
    allowed = None if tolerance is None else positive("tolerance", tolerance)
    table = (
        None
        if data is None
        else read_people(
            data, person=person, exclude=as_names(exclude), missing=missing, delimiter=delimiter, decimal=decimal
        )
    )
    compared = None if table is None else to_find(table, person)
    contents = scan_file(file, compared, tolerance=allowed)
    removed = () if redact is None else redacted(file, redact, contents, compared)
    return ScanReport.of(contents, Path(file).name, _ids(contents, table, person) if show_ids else (), removed)


def _ids(contents: Scan, table: Table | None, person: str | None) -> list[str]:
    """Whose rows were found, each once, in the order of the table."""
    if table is None or person is None:
        return []
    rows = set(contents.matched_rows)
    ids = [str(name) for name, row in zip(table[person], table.rows, strict=True) if int(row) + 1 in rows]
    return list(dict.fromkeys(ids))
