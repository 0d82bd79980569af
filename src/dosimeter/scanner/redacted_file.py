"""`redacted`: a file or folder without the rows in it, checked by a second scan."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from dosimeter.core.errors import Refusal
from dosimeter.core.location import Location
from dosimeter.core.text import safe_list, safe_text
from dosimeter.files.atomic import check_output, write_bytes
from dosimeter.files.file_checks import GIBIBYTE
from dosimeter.scanner.members import Member, members_of
from dosimeter.scanner.redact import KINDS, personal_places, redact_members, redact_npz, redact_skops
from dosimeter.scanner.scan import Scan, scan
from dosimeter.tables.table import Table


def redacted(
    path: str | os.PathLike[str],
    out: str | os.PathLike[str],
    result: Scan,
    table: Table | None = None,
    *,
    limit: int = GIBIBYTE,
) -> tuple[str, ...]:
    """Write the model without the people in it, and return what was removed.

    path: a .skops or .npz file, or a folder of MLflow. result: its scan. Refused if people would still be inside, if
    predictions would change, or if there is nothing to remove.
    """
    members, _, source = members_of(path, limit, opened=False)
    if not (result.rows_inside or result.values_inside):
        raise source.refusal("there is nothing to remove", "the file can stay as it is")
    if Path(path).is_dir():
        kept, removed = redact_members(members, source)
        _write_folder(kept, Path(out), table, limit)
        return removed
    kind = Path(path).suffix.lower()
    if kind not in KINDS:
        raise source.refusal(f"a {kind or 'nameless'} file cannot be redacted", f"give {', '.join(KINDS)} or a folder")
    redact = redact_skops if kind == ".skops" else redact_npz
    redaction = redact(members[0].data, result.findings, limit, source)
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, f"redacted{kind}")
        copy.write_bytes(redaction.data)
        again = scan(copy, table, limit=limit)
        refuse_people(again, source)
        if again.unread:
            problem = f"{safe_list([safe_text(place, 60) for place, _ in again.unread])} could not be looked into"
            raise source.refusal(problem, "redact it by hand")
    write_bytes(out, redaction.data, inputs=[path])
    return redaction.removed


def _write_folder(members: list[Member], out: Path, table: Table | None, limit: int) -> None:
    """Write the files into a new folder, which gets its name when it is complete."""
    if out.exists():
        raise Refusal(f"{out}: exists already: name a new folder")
    check_output(out)
    with tempfile.TemporaryDirectory(prefix=".dosimeter-", dir=out.parent) as folder:
        root = Path(folder, "model")
        for member in members:
            target = root / member.name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(member.data)
        refuse_people(scan(root, table, limit=limit), Location(str(out)))
        os.replace(root, out)


def refuse_people(result: Scan, source: Location) -> None:
    """Refuse a redacted file that still holds people."""
    if result.rows_inside or result.values_inside:
        places = safe_list([safe_text(place, 60) for place in personal_places(result.findings)])
        raise source.refusal(f"people are still in {places}", "it predicts with them: release another kind of model")
