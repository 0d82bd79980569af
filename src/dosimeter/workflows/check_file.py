"""One file of a folder that is to leave: what it is, what is inside, what it leaks, and the verdict of the policy."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.location import Location
from dosimeter.core.text import safe_list, safe_text
from dosimeter.files.file_checks import GIBIBYTE, first_bytes, read_bytes, regular_file
from dosimeter.files.strict_json import parse
from dosimeter.results.check import FileCheck
from dosimeter.results.editions import internal_fields
from dosimeter.results.result import Result, load_types
from dosimeter.results.scan import ScanReport
from dosimeter.scanner import scan as scan_file
from dosimeter.scanner.text_models import is_lightgbm
from dosimeter.tables.coefficient_table import MOST_BYTES, CoefficientTable, CovarianceTable, read_coefficients
from dosimeter.tables.table import Table
from dosimeter.workflows.check_desk import Desk, Findings, report_dose
from dosimeter.workflows.check_noise import leakage_of
from dosimeter.workflows.check_regression import check_covariance, check_regression
from dosimeter.workflows.model_file import fitted_model
from dosimeter.workflows.scan import scan

MODELS = (".skops", ".onnx", ".safetensors", ".npz", ".npy", ".pkl", ".pickle", ".joblib", ".pt", ".pth", ".rds",
          ".rdata", ".rda", ".h5", ".hdf5", ".ubj", ".pmml", ".model", ".bst", ".vocab", ".bin", ".zip", ".tar", ".tgz",
          ".gz", ".bz2", ".xz", ".whl")  # fmt: skip
TEXTS = (".csv", ".tsv", ".txt")
PAGES = (".html", ".htm", ".md")
DOSE_FILE = "dosimeter.dose"
MOST_TEXT = 64 * 2**20
NOT_MEASURED = "what its weights leak was not measured: only a .skops model or a booked release is"
INTERNAL_PAGE = Result.internal_note
"""Every internal edition says this about itself."""


def check_file(path: Path, name: str, desk: Desk) -> FileCheck:
    """The verdict on one file. name: its path within the folder."""
    findings = Findings(safe_text(name, 200), "unknown")
    if path.is_symlink():
        findings.kind = "a link"
        findings.add(desk.policy.unread, "links are not followed: put the file itself into the folder")
        return findings.check()
    try:
        file, source = regular_file(path, GIBIBYTE)
        head = first_bytes(file, source)
        with file.open("rb") as handle:
            digest = hashlib.file_digest(handle, "sha256").hexdigest()
        findings.facts |= {"size": file.stat().st_size, "sha256": digest}
        _kind_of(file, head)(file, desk, findings)
    except CannotMeasure as refusal:
        findings.add("review", f"cannot be measured: {_without_path(refusal, path)}")
    except Refusal as refusal:
        findings.add(desk.policy.unread, f"not looked into: {_without_path(refusal, path)}")
    return findings.check()


def _without_path(refusal: Refusal, path: Path) -> str:
    """The message without the place of the file, which the page names already."""
    return str(refusal).replace(f"{safe_text(path, 120)}: ", "")


def _kind_of(file: Path, head: bytes) -> Callable[[Path, Desk, Findings], None]:
    suffix = file.suffix.lower()
    if head.startswith(b"SQLite format 3") or suffix == ".keys":
        return _database
    if suffix == ".json":
        return _json
    if suffix in TEXTS:
        return _text
    if suffix in PAGES:
        return _page
    return _model if suffix in MODELS else _unknown


def _unknown(file: Path, desk: Desk, findings: Findings) -> None:
    findings.kind = f"a file {safe_text(file.suffix, 20)}" if file.suffix else "a file without ending"
    findings.add(desk.policy.unread, "no kind of file that is checked here: a person must look at it")


def _database(file: Path, desk: Desk, findings: Findings) -> None:
    findings.kind = "a database or a key file"
    findings.add("fail", "a ledger and its keys are internal: they hold every person's total")


def _page(file: Path, desk: Desk, findings: Findings) -> None:
    findings.kind = "a page"
    if INTERNAL_PAGE in _text_of(file):
        findings.add("fail", "an internal edition: its figures were computed without protection; send the external one")
    else:
        findings.add(desk.policy.unread, "a text for people: a person must read it")


def _text_of(file: Path) -> str:
    """The text of a file that is read whole, up to a limit."""
    if file.stat().st_size > MOST_TEXT:
        raise Refusal(f"more than {MOST_TEXT // 2**20} MiB of text: a person must look at it")
    return file.read_bytes().decode("utf-8", errors="replace")


def _json(file: Path, desk: Desk, findings: Findings) -> None:
    findings.kind = "JSON"
    text = _text_of(file)
    if DOSE_FILE in text:
        findings.kind = "a dose file"
        findings.add("fail", "doses by person are internal")
        return
    if '"schema"' in text and '"dosimeter.' in text:
        _result(file, desk, findings)
        return
    if '"coef"' in text and '"loss"' in text:
        findings.kind = "coefficients"
        if not _ledger(desk, findings):
            _dose(file, desk, findings)
        return
    _model(file, desk, findings)


def _result(file: Path, desk: Desk, findings: Findings) -> None:
    """A result may leave if every field in it is public and holds what it should, whatever it says about itself."""
    try:
        values = parse(_text_of(file))
    except (ValueError, RecursionError):
        raise Refusal("not valid JSON: write the result again") from None
    kind = load_types().get(str(values.get("schema"))) if isinstance(values, dict) else None
    if kind is None:
        raise Refusal("a result of another version: write it again")
    findings.kind = f"a result ({kind.schema_name})"
    internal = list(internal_fields(kind, values))
    if internal:
        findings.add(
            "fail", f"internal figures ({safe_list(internal, 3)}): send the external edition (dosimeter report --json)"
        )
    elif values.get("statistics"):
        findings.add("review", "rounded statistics of doses are not protected: a person must look at them")
    else:
        findings.add("pass", "a result with public fields alone")
    if desk.table is not None:
        _rows_inside(scan(file, data=desk.table_to_find), findings)


def _model(file: Path, desk: Desk, findings: Findings) -> None:
    findings.kind = f"a model file ({file.suffix.lower().lstrip('.')})"
    data = desk.table_to_find
    report = scan(file, data=data)
    findings.facts["rows_found"] = len(report.rows_found) if data is not None else None
    if not _rows_inside(report, findings):
        findings.add("pass", "no rows found inside" + ("" if data is not None else "; not compared with the table"))
    if report.not_looked_into:
        parts = len(report.not_looked_into)
        findings.add(desk.policy.unread, f"{parts} part{'s' if parts > 1 else ''} of the file could not be looked into")
    if data is None and any(finding.severity == "rows" for finding in report.findings):
        findings.add("review", "it holds what could be rows: name the training table in the policy to compare")
    if _ledger(desk, findings):
        return
    if file.suffix.lower() == ".skops":
        _dose(file, desk, findings)
    else:
        findings.add(desk.policy.exact, NOT_MEASURED)


def _rows_inside(report: ScanReport, findings: Findings) -> bool:
    """Whether a scan found rows or values of single people; the file then fails."""
    if report.rows_inside:
        findings.add("fail", f"training rows are inside the file{_place(report, 'rows')}")
    elif report.single_values_inside:
        findings.add("fail", f"values of single people are inside the file{_place(report, 'values of single people')}")
    return report.people_inside


def _place(report: Any, severity: str) -> str:
    """Where the first finding of this severity is, in brackets: of a zip, the name of the file inside."""
    place = next((finding.place for finding in report.findings if finding.severity == severity), "all")
    return "" if place == "all" else f" ({safe_text(place, 80)})"


def _dose(file: Path, desk: Desk, findings: Findings) -> None:
    """What the weights leak, if the table is at hand."""
    declared, data = desk.policy.declared(file.name), desk.policy.data
    if desk.table is None:
        findings.add("review", "what its weights leak was not measured: the policy names no table")
        return
    with fitted_model(file) as model:
        leak = leakage_of(model, desk.table, declared.target or data["target"], desk.person, declared, findings)
    report_dose(leak.result(limit=desk.policy.max_dose), desk.policy, findings)


def _ledger(desk: Desk, findings: Findings) -> bool:
    """Whether the file is booked: its dose was then computed with the noise that is in it."""
    if desk.policy.ledger is None:
        return False
    entry = desk.booked.get(findings.facts["sha256"])
    if entry is None:
        findings.add(desk.policy.booked, "not booked in the ledger")
        return False
    findings.facts["booked"] = entry.name
    limit = desk.policy.max_dose
    if entry.highest is None:
        findings.add("pass", "booked in the ledger, in another notion than η")
    else:
        findings.facts |= {"dose": entry.highest, "dose_for": "person"}
        within = limit is None or entry.highest <= limit * (1 + 1e-9)
        text = f"booked in the ledger with a highest dose of {entry.highest:.3g}"
        findings.add("pass" if within else "fail", text if within else f"{text}, above the limit {limit:g}")
    return True


def _text(file: Path, desk: Desk, findings: Findings) -> None:
    parsed = coefficients_of(file)
    if isinstance(parsed, CoefficientTable):
        findings.kind = "a coefficient table"
        check_regression(file, parsed, desk, findings)
        _ledger(desk, findings)
        return
    if isinstance(parsed, CovarianceTable):
        findings.kind = "a covariance matrix"
        check_covariance(parsed, desk, findings)
        return
    if is_lightgbm(first_bytes(file, Location(str(file)))):
        _model(file, desk, findings)
        return
    findings.kind = "a table or a text"
    rows = _rows_of_table(file, desk)
    if rows:
        findings.facts["rows_found"] = rows
        findings.add("fail", f"{rows} rows of the training table are in the file")
    elif desk.table_to_find is None or not _rows_inside(_scanned_as_text(file, desk.table_to_find), findings):
        findings.add(desk.policy.unread, "a table or a text for people: a person must look at it")


def _scanned_as_text(file: Path, table: Table) -> ScanReport:
    """The search for the table in the bytes of a text: its columns may have other names, or none."""
    return ScanReport.of(scan_file(file, table, kind=".txt"), file.name)


def coefficients_of(file: Path) -> CoefficientTable | CovarianceTable | None:
    """The coefficient table or the covariance in a text file, if it is one; None for what cannot be read."""
    if file.is_symlink() or file.suffix.lower() not in TEXTS:
        return None
    try:
        regular, source = regular_file(file, MOST_BYTES)
        return read_coefficients(read_bytes(regular, source).decode("utf-8", errors="replace"))
    except Refusal:  # a pipe, or a file that nobody may read: its own verdict says so
        return None


def _rows_of_table(file: Path, desk: Desk) -> int:
    """Rows of the file that are rows of the training table in all columns that both have, at least two."""
    from dosimeter.tables.read import read_table

    if desk.table is None:
        return 0
    try:
        other = read_table(file)
    except Refusal:
        return 0
    table = desk.table
    shared = [name for name in other.names if name in table.names and other.kind(name) == table.kind(name)]
    if len(shared) < 2:
        return 0
    known = set(zip(*(table[name].tolist() for name in shared), strict=True))
    return sum(row in known for row in zip(*(other[name].tolist() for name in shared), strict=True))
