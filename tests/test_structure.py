"""The shape of the source: results are types, names say what they hold, modules are short enough to read."""

from __future__ import annotations

import ast
import re
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src" / "dosimeter"
MODULES = sorted(SOURCE.rglob("*.py"))
VAGUE = {"found", "told", "made", "one", "given", "stuff", "thing"}
"""Local names that do not say what they hold."""


def test_packages_pass_types_and_not_dicts() -> None:
    """At most 30 in all, each at a boundary of a file or a library: Vega-Lite, TOML, JSON."""
    packages = ("workflows", "results", "reports", "cli")
    files = [file for name in packages for file in (SOURCE / name).rglob("*.py")]
    assert len(files) > 100
    untyped = [file.name for file in files for _ in re.findall(r"dict\[str, Any\]", file.read_text(encoding="utf-8"))]
    assert 0 < len(untyped) <= 30, sorted(untyped)


def test_local_names_say_what_they_hold() -> None:
    vague = []
    for file in MODULES:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                stored = (n for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
                vague += [f"{file.name}:{name.lineno}: {name.id}" for name in stored if name.id in VAGUE]
    assert vague == []


def test_no_module_is_too_long_to_read() -> None:
    """The aim is 60 to 250 lines; a second look at 400."""
    lengths = {file.name: len(file.read_text(encoding="utf-8").splitlines()) for file in MODULES}
    assert {name: lines for name, lines in lengths.items() if lines > 500} == {}
    assert sum(lines > 400 for lines in lengths.values()) <= 10


def test_a_public_class_has_a_name_of_its_own() -> None:
    places: dict[str, list[str]] = {}
    for file in MODULES:
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(file.relative_to(SOURCE).as_posix())
    assert len(places) > 500
    assert {name: files for name, files in places.items() if len(files) > 1} == {}
