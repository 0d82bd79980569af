"""The pages keep their word: links lead somewhere, paths and names exist, keys resolve, examples run."""

from __future__ import annotations

import ast
import doctest
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
SOURCES = sorted(file for room in ("src", "tests", "benchmarks") for file in (ROOT / room).rglob("*.py"))
PAPERS = ROOT / "docs" / "papers" / "README.md"

FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.M | re.S)
INLINE = re.compile(r"(?<!!)\[[^\]\n]*\]\(([^)\s]+)\)")
DEFINITION = re.compile(r"^\[([^\]]+)\]:\s+(\S+)", re.M)
KEY = re.compile(r"\[([A-Z][A-Za-z]+\d\d(?:-v\d)?)[\],]")
CODE = re.compile(r"`([^`\n]+)`")
PATH = re.compile(r"(?:\.?[\w-]+/)+(?:[\w.-]+\.\w+|\{[^}]*\})?|[\w-]+/\w+\.(?:py|md)")
FILE = re.compile(r"""["'][\w./-]+\.(?:csv|parquet|skops|json)["']""")
MODULES = {
    "dm": "dosimeter",
    "federated": "dosimeter.federated",
    "glm": "dosimeter.glm",
    "pate": "dosimeter.pate",
    "pca": "dosimeter.pca",
}
ROOMS = ("src", "tests", "docs", "benchmarks")
PLACES = (ROOT, ROOT / "docs", ROOT / "src" / "dosimeter")
"""Where a path in backticks may start: `src/...` at the root, `glm/x.py` in the package."""

every_page = pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))


def prose(page: Path) -> str:
    """The page without its blocks of code."""
    return FENCE.sub("", page.read_text(encoding="utf-8"))


def slug(heading: str) -> str:
    """The anchor of a heading as GitHub makes it: lower case, punctuation gone, blanks to hyphens."""
    plain = re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", lambda m: m.group(1) or "", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


@cache
def anchors(page: Path) -> frozenset[str]:
    """Every anchor of a page; repeated headings are numbered."""
    found: dict[str, int] = {}
    out = set()
    for heading in re.findall(r"^#{1,6}\s+(.+)$", prose(page), re.M):
        name = slug(heading)
        out.add(f"{name}-{found[name]}" if name in found else name)
        found[name] = found.get(name, 0) + 1
    return frozenset(out)


def links(page: Path) -> Iterator[str]:
    text = re.sub(r"`[^`\n]*`", "", prose(page))
    yield from INLINE.findall(text)
    yield from (target for _, target in DEFINITION.findall(text))


@every_page
def test_every_relative_link_and_anchor_leads_somewhere(page: Path) -> None:
    lost = []
    for target in links(page):
        if re.match(r"[a-z]+:", target):
            continue
        place, _, anchor = target.partition("#")
        file = (page.parent / place).resolve() if place else page
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in anchors(file)):
            lost.append(target)
    assert not lost


@every_page
def test_every_path_in_backticks_exists(page: Path) -> None:
    lost = []
    for code in CODE.findall(prose(page)):
        if not PATH.fullmatch(code) or not (code.split("/")[0] in ROOMS or code.endswith((".py", ".md"))):
            continue  # a formula, a file of the reader's, a command
        if not any((start / code).exists() for start in PLACES):
            lost.append(code)
    assert not lost


def missing_names(code: str) -> list[str]:
    """`dm.x`, `glm.x` and the like that the package does not have."""
    named = re.findall(rf"\b({'|'.join(MODULES)})\.(?!py\b)([A-Za-z_]\w*)", code)
    return [f"{short}.{name}" for short, name in named if not hasattr(import_module(MODULES[short]), name)]


@every_page
def test_every_public_name_in_backticks_exists(page: Path) -> None:
    assert not [name for code in CODE.findall(prose(page)) for name in missing_names(code)]


def keys_of_papers() -> set[str]:
    return set(re.findall(r"^## (\S+)$", PAPERS.read_text(encoding="utf-8"), re.M))


@every_page
def test_every_key_on_a_page_resolves_and_is_a_link(page: Path) -> None:
    text = prose(page)
    without_code = re.sub(r"`[^`\n]*`", "", text)
    used = set(KEY.findall(without_code)) - {"Name99"}
    assert used <= keys_of_papers()
    assert used <= {name for name, _ in DEFINITION.findall(text)}, "define the key at the foot of the page"


def test_every_key_in_a_docstring_resolves() -> None:
    known, lost = keys_of_papers(), []
    for source in SOURCES:
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                lost += [f"{source.name}: {key}" for key in KEY.findall(node.value) if key not in known]
    assert not lost


def test_every_page_of_docs_can_be_reached_from_the_index() -> None:
    index = ROOT / "docs" / "index.md"
    reached, waiting = set(), [index]
    while waiting:
        page = waiting.pop()
        if page in reached or page.suffix != ".md" or not page.exists():
            continue
        reached.add(page)
        local = (t.partition("#")[0] for t in links(page) if not re.match(r"[a-z]+:", t))
        waiting += [(page.parent / t).resolve() for t in local if t]
    assert not {p for p in PAGES if "docs" in p.parts} - reached


@every_page
def test_python_blocks_run(page: Path) -> None:
    """Blocks of one page share their names, in order; those with prompts are doctests."""
    names: dict[str, object] = {"__name__": "docs"}
    parser, runner = doctest.DocTestParser(), doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    for number, (language, block) in enumerate(FENCE.findall(page.read_text(encoding="utf-8"))):
        if language != "python":
            continue
        if FILE.search(block):  # it reads a file of the reader's: it must parse, and our names in it must exist
            ast.parse(block)
            assert not missing_names(block)
            continue
        if ">>>" not in block:
            exec(compile(block, f"{page.name}[{number}]", "exec"), names)
            continue
        test = parser.get_doctest(block, names, f"{page.name}[{number}]", str(page), 0)
        report: list[str] = []
        failed = runner.run(test, out=report.append, clear_globs=False).failed
        names.update(test.globs)  # a doctest runs in a copy of the names it is given
        assert not failed, "".join(report)


def test_the_pages_speak_of_the_product_alone() -> None:
    """No machine's paths and no addresses of package mirrors."""
    forbidden = re.compile(r"/home/|/Users/|/tmp/|file://|index-url|\.internal\b")
    assert not [p.name for p in PAGES if forbidden.search(p.read_text(encoding="utf-8"))]


def test_the_picture_shows_what_the_demo_says_today() -> None:
    from dosimeter.cli.demo import figures
    from dosimeter.cli.show import number
    from dosimeter.report.sections.interpretation import times_right

    facts = figures()
    drawn = (ROOT / "docs" / "demo.svg").read_text(encoding="utf-8")
    dose, meaning = facts["dose"], facts["meaning"]
    shown = [number(dose[k]) for k in ("typical", "worst_1_percent", "highest")]
    shown += [f"patient&#160;{dose['highest_row']}", number(meaning["eta"]), str(facts["verdict"]["above"])]
    assert [figure for figure in shown if figure not in drawn] == []
    assert "url(" not in drawn.replace("url(#", "")
    said = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"patient {dose['highest_row']}'s {meaning['column']} has η = {number(meaning['eta'])}" in said
    (bmi,) = [one for one in facts["columns"] if one["column"] == "bmi"]
    assert f"bmi can be pinned closer than ±{number(bmi['least_deviation'])}" in said
    assert f"gives it to ±{number(bmi['without_release'])} without the release" in said
    assert f"{times_right(meaning['eta'])}" in said
    assert times_right(facts["verdict"]["limit"]).startswith("69 ")


def test_the_readme_example_runs_on_a_table_of_patients(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ten lines, as they stand, on a file that has the columns they name."""
    import numpy as np
    import pandas as pd

    rng = np.random.default_rng(0)
    n = 600
    frame = pd.DataFrame({"patient_id": np.arange(n) // 2, "age": rng.integers(18, 95, n)})
    frame["bmi"], frame["sex"] = rng.normal(27, 5, n), rng.choice(["f", "m"], n)
    frame["readmitted"] = (rng.random(n) < 1 / (1 + np.exp(-(frame["bmi"] - 27) / 5))).astype(int)
    frame.to_csv(tmp_path / "patients.csv", index=False)
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (block,) = [b for b in re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL) if "patients.csv" in b]
    names: dict[str, object] = {}
    exec(block, names)
    leak = names["leak"]
    assert len(leak.persons) == 300  # type: ignore[attr-defined]
    assert "bmi" in leak.sentence(417, "bmi")  # type: ignore[attr-defined]
