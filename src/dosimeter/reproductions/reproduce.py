"""`dm.reproduce`: each printed number of a paper beside ours."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from dosimeter.core.errors import Refusal
from dosimeter.core.face import option
from dosimeter.core.progress import stage
from dosimeter.reproductions.comparison import PaperReport
from dosimeter.reproductions.html_page import Reproduction
from dosimeter.results.reproduction import PaperRow, ReproductionReport

PAPERS = ("geyer19", "hannun21", "saeidian21", "zari22")
WITHOUT_DATA = ("geyer19", "saeidian21")
"""Papers with printed numbers that need no data; with it they report more."""


def reproduce(
    name: str, *, data: str | Path | None = None, quick: bool = False, seeds: int | None = None
) -> ReproductionReport:
    """Compute each printed number of a paper and compare it with the print.

    Parameters
    ----------
    name
        The paper: "geyer19", "hannun21", "saeidian21" or "zari22".
    data
        The folder with the papers' data. saeidian21 and geyer19 have rows without it.
    quick
        Only what takes seconds or a minute: the long experiments are left out.
    seeds
        geyer19: trainings of each line of its Table 1, 10 by default.

    Returns
    -------
    ReproductionReport
        One row per figure; a row that differs says why.

    Raises
    ------
    Refusal
        The paper is not known, or its data is missing.

    Examples
    --------
    >>> import dosimeter as dm
    >>> report = dm.reproduce("saeidian21", quick=True)
    >>> report.name, all(row.ok or row.why for row in report.rows)
    ('saeidian21', True)
    """
    return result_of(reproduction(name, data, quick, seeds).report)


def reproduction(name: str, data: str | Path | None, quick: bool, seeds: int | None) -> Reproduction:
    """The rows and the figures of a paper."""
    if name not in PAPERS:
        raise Refusal(f"no paper is called {name!r}: use {', '.join(PAPERS)}")
    if data is None and name not in WITHOUT_DATA:
        raise Refusal(f"the papers' data is not part of the package: pass {option('data')} or set DOSIMETER_DATA")
    if seeds is not None and name != "geyer19":
        raise Refusal(f"{name} trains nothing over several seeds: leave {option('seeds')} out")
    stage(f"reproducing {name}")
    extra: Any = {} if seeds is None else {"seeds": seeds}
    folder = None if data is None else Path(data)
    rows: Reproduction = import_module(f"dosimeter.reproductions.{name}").reproduction(folder, quick, **extra)
    return rows


def result_of(report: PaperReport) -> ReproductionReport:
    """The rows as a result."""
    noted: Any = {"note": report.note} if report.note else {}
    rows = [
        PaperRow(
            figure=row.figure,
            paper=row.paper,
            ours=row.ours,
            tolerance=row.tolerance,
            why=row.why,
            measured=row.measured,
            ok=row.ok,
            state=row.state,
        )
        for row in report.rows
    ]
    return ReproductionReport(name=report.name, rows=rows, **noted)
