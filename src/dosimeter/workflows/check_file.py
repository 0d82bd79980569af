"""One file of a folder that is to leave: what it is, what is inside, what it leaks, and the verdict of the policy."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dosimeter.adapters.features import HELD_FIXED
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.location import Location
from dosimeter.core.text import safe_list, safe_text
from dosimeter.files.file_checks import GIBIBYTE, first_bytes, read_bytes, regular_file
from dosimeter.files.strict_json import parse
from dosimeter.results.check import FileCheck
from dosimeter.results.editions import internal_fields
from dosimeter.results.result import load_types
from dosimeter.results.scan import ScanReport
from dosimeter.scanner import scan as scan_file
from dosimeter.scanner.members import ARCHIVES, members_of
from dosimeter.scanner.text_models import is_lightgbm
from dosimeter.tables.coefficient_table import MOST_BYTES, CoefficientTable, CovarianceTable, read_coefficients
from dosimeter.tables.table import Table
from dosimeter.workflows.check_desk import Desk, Findings, report_dose
from dosimeter.workflows.check_internal import DOSES, KINDS, LEDGER, internal_content, internal_file
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
SQLITE = b"SQLite format 3"
HEAD = 2**16
MOST_TEXT = 64 * 2**20
NOT_MEASURED = "what its weights leak was not measured: only a .skops model or a booked release is"
NOISED = "if there is noise in its weights, as in those of `fix`, book the file or state the noise under [[release]]"
LONGEST_WORD, MOST_NUMBERS, MOST_LETTERS = 100, 100, 8_000
"""In the texts of one result: about three times what the largest that dosimeter writes has."""
_NUMBER = re.compile(r"\d+(?:\.\d+)?")


def check_file(path: Path, name: str, desk: Desk) -> FileCheck:
    """The verdict on one file. name: its path within the folder."""
    findings = Findings(safe_text(name, 200), "unknown")
    if path.is_symlink():
        findings.kind = "a link"
        rule = "fail" if desk.policy.unread == "fail" else "review"
        findings.add(rule, "links are not followed: put the file itself into the folder")
        return findings.check()
    try:
        if path.is_file() and path.stat().st_size == 0:
            findings.kind = "an empty file"
            findings.add(desk.policy.unread, "the file is empty")
            return findings.check()
        file, source = regular_file(path, GIBIBYTE)
        head = first_bytes(file, source)
        with file.open("rb") as handle:
            digest = hashlib.file_digest(handle, "sha256").hexdigest()
        findings.facts |= {"size": file.stat().st_size, "sha256": digest}
        if reason := internal_file(file):
            _internal(reason, findings)
        else:
            _kind_of(file, head)(file, desk, findings)
    except CannotMeasure as refusal:
        findings.add("review", f"cannot be measured: {_without_path(refusal, path)}")
    except Refusal as refusal:
        findings.add(desk.policy.unread, f"not looked into: {_without_path(refusal, path)}")
    if desk.table_to_find is not None and not findings.searched and not findings.failed:
        _search_bytes(path, desk.table_to_find, findings)
    return findings.check()


def _search_bytes(path: Path, table: Table, findings: Findings) -> None:
    """Whatever a file is or is called, its bytes are searched for the training table."""
    try:
        _rows_inside(_scanned_as_text(path, table), findings)
    except Refusal:
        return  # its verdict says already that it was not looked into


def _without_path(refusal: Refusal, path: Path) -> str:
    """The message without the place of the file, which the page names already."""
    return str(refusal).replace(f"{safe_text(path, 120)}: ", "")


def _kind_of(file: Path, head: bytes) -> Callable[[Path, Desk, Findings], None]:
    suffix = file.suffix.lower()
    if head.startswith(SQLITE) or suffix == ".keys":
        return _database
    if suffix == ".json":
        return _json
    if DOSE_FILE.encode() in head and suffix not in PAGES:
        return _doses
    if is_result(head.decode("utf-8", "replace")) and suffix not in PAGES:
        return _result
    if suffix in TEXTS:
        return _text
    if suffix in PAGES:
        return _page
    return _model if suffix in MODELS else _unknown


def _internal(reason: str, findings: Findings) -> None:
    findings.kind = KINDS[reason]
    findings.add("fail", reason)


def _doses(file: Path, desk: Desk, findings: Findings) -> None:
    _internal(DOSES, findings)


def _unknown(file: Path, desk: Desk, findings: Findings) -> None:
    findings.kind = f"a file {safe_text(file.suffix, 20)}" if file.suffix else "a file without ending"
    findings.add(desk.policy.unread, "no kind of file that is checked here: a person must look at it")


def _database(file: Path, desk: Desk, findings: Findings) -> None:
    findings.kind = "a database or a key file"
    findings.add("fail", LEDGER)


def _page(file: Path, desk: Desk, findings: Findings) -> None:
    findings.kind = "a text" if file.suffix.lower() == ".md" else "a page"
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
        _doses(file, desk, findings)
        return
    if is_result(text):
        _result(file, desk, findings)
        return
    if '"coef"' in text and '"loss"' in text:
        findings.kind = "coefficients"
        if not _ledger(desk, findings):
            _dose(file, desk, findings)
        return
    _model(file, desk, findings)


def is_result(text: str) -> bool:
    """Whether a text is a result of dosimeter, whatever its file is called."""
    return text.lstrip("\ufeff \n\r\t").startswith("{") and '"schema"' in text and '"dosimeter.' in text


def _result(file: Path, desk: Desk, findings: Findings) -> None:
    """A result may leave if every field in it is public and holds what it should, whatever it says about itself."""
    try:
        values = parse(_text_of(file))
    except (ValueError, RecursionError):
        raise Refusal("not valid JSON: write the result again") from None
    kind = load_types().get(str(values.get("schema"))) if isinstance(values, dict) else None
    if kind is None:
        findings.kind = "a result"
        rule = "fail" if desk.policy.unread == "fail" else "review"
        findings.add(rule, "a result of another version, whose fields are not known here: write it again")
        return
    findings.kind = f"a result ({kind.schema_name})"
    # What was measured about people is named before how it was called.
    internal = sorted(internal_fields(kind, values), key=lambda path: (path != "dose", path.startswith("reproduce")))
    if internal:
        findings.add(
            "fail", f"internal figures ({safe_list(internal, 3)}): send the external edition (dosimeter report --json)"
        )
    elif values.get("statistics"):
        findings.add("review", "rounded statistics of doses are not protected: a person must look at them")
    elif long_texts(values):
        findings.add(
            "review", "texts in it are longer, or hold more numbers, than dosimeter writes: a person must read it"
        )
    else:
        findings.add("pass", "a result with public fields alone; its figures are those that it states")
    if desk.table_to_find is not None:
        _rows_inside(ScanReport.of(scan_file(file, desk.table_to_find, kind=".json"), file.name), findings)


def long_texts(values: Any) -> bool:
    """Whether the texts of a result could carry a table: too long, of long words, or of many numbers.

    >>> long_texts({"says": "No person has a dose above 1."}), long_texts({"says": ["61.2, 24.8, 47.0"] * 60})
    (False, True)
    """
    texts: list[str] = []
    stack = [values]
    while stack:
        value = stack.pop()
        if isinstance(value, str):
            texts.append(value)
        elif isinstance(value, dict):
            stack += [*value, *value.values()]
        elif isinstance(value, list):
            stack += value
    longest_word = max((len(word) for text in texts for word in text.split()), default=0)
    numbers = sum(len(_NUMBER.findall(text)) for text in texts)
    return longest_word > LONGEST_WORD or numbers > MOST_NUMBERS or sum(map(len, texts)) > MOST_LETTERS


def _model(file: Path, desk: Desk, findings: Findings) -> None:
    findings.kind = f"a model file ({file.suffix.lower().lstrip('.')})"
    data = desk.table_to_find
    if file.suffix.lower() in ARCHIVES:
        _inside_archive(file, desk, findings)
    report = scan(file, data=data)
    findings.facts["rows_found"] = len(report.rows_found) if data is not None else None
    if not _rows_inside(report, findings):
        findings.add("pass", "no rows found inside" + ("" if data is not None else "; not compared with the table"))
    if report.not_looked_into:
        parts = len(report.not_looked_into)
        findings.add(desk.policy.unread, f"{parts} part{'s' if parts > 1 else ''} of the file could not be looked into")
    # The header of a compressed file, or what a format does not describe, is searched as bytes.
    findings.searched = not report.not_looked_into and file.suffix.lower() not in ARCHIVES
    if data is None and any(finding.severity == "rows" for finding in report.findings):
        findings.add("review", "it holds what could be rows: name the training table in the policy to compare")
    if _ledger(desk, findings):
        return
    if file.suffix.lower() == ".skops":
        _dose(file, desk, findings)
    else:
        findings.add(desk.policy.exact, NOT_MEASURED)


def _inside_archive(file: Path, desk: Desk, findings: Findings) -> None:
    """What in an archive is no model: it would be checked on its own in a folder."""
    members, _, _ = members_of(file, GIBIBYTE)
    internal, others = [], 0
    for member in members:
        suffix, head = Path(member.name).suffix.lower(), member.data[:HEAD]
        is_dose_file = DOSE_FILE.encode() in head and suffix not in PAGES
        if head.startswith(SQLITE) or suffix == ".keys" or is_dose_file or internal_content(member.data, suffix):
            internal.append(member.name)
        elif suffix not in MODELS:
            others += 1
    if internal:
        findings.add(
            "fail", f"ledgers, keys, doses, checkpoints or internal editions are in it ({safe_list(internal, 3)})"
        )
    if others:
        is_are = "file inside is no model" if others == 1 else "files inside are no models"
        findings.add(desk.policy.unread, f"{others} {is_are}: unpack the archive, they are checked one by one then")


def _rows_inside(report: ScanReport, findings: Findings) -> bool:
    """Whether a scan found rows or values of single people; the file then fails."""
    findings.searched = True
    if report.rows_inside:
        findings.add("fail", f"training rows are inside the file{_place(report, 'rows')}")
    elif report.single_values_inside:
        findings.add("fail", f"values of single people are inside the file{_place(report, 'values of single people')}")
    return report.people_inside


def _place(report: Any, severity: str) -> str:
    """Where the first finding of this severity is, in brackets: of a zip, the name of the file inside."""
    place = next((finding.place for finding in report.findings if finding.severity == severity), "all")
    return "" if place in ("all", "text (text)") else f" ({safe_text(place, 80)})"


def _dose(file: Path, desk: Desk, findings: Findings) -> None:
    """What the weights leak, if the table is at hand."""
    declared, data = desk.policy.declared(file.name), desk.policy.data
    if desk.table is None:
        findings.add("review", "what its weights leak was not measured: the policy names no table")
        return
    with fitted_model(file) as model:
        try:
            leak = leakage_of(model, desk.table, declared.target or data["target"], desk.person, declared, findings)
        except CannotMeasure as refusal:
            if declared.scale is None and "minimum" in str(refusal):
                findings.add("review", NOISED)
            raise
    report_dose(leak.result(limit=desk.policy.max_dose), desk.policy, findings)
    if declared.scale is not None:
        _exact_statistics(leak, findings)


def _exact_statistics(leak: Any, findings: Findings) -> None:
    """What the file holds beside its noised weights: noise on these protects no statistic that stands there exactly."""
    held = [note.removesuffix(f" {HELD_FIXED}") for note in leak.not_covered if note.endswith(HELD_FIXED)]
    held = [note for note in held if not note.startswith("the levels of ")]
    if leak.floor is not None:
        solve = "an attacker who knows the other rows solves for a cell at any noise; let dosimeter fix write the file"
        findings.add("fail", f"statistics of the table stand in it without noise ({safe_list(held, 3)}): {solve}")
    elif held:
        findings.add("review", f"statistics of data stand in it without noise ({safe_list(held, 3)})")


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
    else:
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
