"""The pages keep their word: links lead somewhere, names and options exist, keys resolve, examples run."""

from __future__ import annotations

import ast
import doctest
import importlib.util
import io
import re
import shlex
import sys
import tokenize
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType

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
    "estimators": "dosimeter.estimators",
    "federated": "dosimeter.federated",
    "glm": "dosimeter.glm",
    "pate": "dosimeter.pate",
    "pca": "dosimeter.pca",
}
ROOMS = ("src", "tests", "docs", "benchmarks")
PLACES = (ROOT, ROOT / "docs", ROOT / "src" / "dosimeter")
"""Where a path in backticks may start: `src/...` at the root, `glm/x.py` in the package."""

DOCS = [page for page in PAGES if "docs" in page.relative_to(ROOT).parts]
ENTRY = [
    ROOT / "README.md",
    *(page for page in DOCS if page.name == "index.md" or page.parent.name in ("tutorials", "how-to")),
]
OTHERS = [page for page in PAGES if page not in ENTRY and page.name != "CHANGELOG.md"]
GENERATED = "## Every field"
"""From here on a page is written by docs/generate.py, in the words of the result types."""
RETIRED = re.compile(
    r"\b(the house|leaves? the building|strangers?'s?|whoever|somebody|nobody|everybody|so many|mends?|mended|"
    r"gives? away|given away|giving away|very votes|beforehand|the book of|told apart)\b",
    re.I,
)
"""Wording that needed a second reading; the pages have plainer words for each."""
METAPHOR = re.compile(
    r"\b(the house|leaves? the building|a stranger's|whoever|somebody|so many|mends?|mended|gives? away|"
    r"very votes|beforehand|the book of|told)\b",
    re.I,
)
"""The same for the source, where "nobody" is a value and a word of the ledger."""
TEXTS = (tokenize.STRING, tokenize.COMMENT, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING))

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
        text = source.read_text(encoding="utf-8")
        if known.issuperset(KEY.findall(text)):
            continue  # whether in a string or not
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                lost += [f"{source.name}: {key}" for key in KEY.findall(node.value) if key not in known]
    assert not lost


def test_every_page_named_in_the_source_exists() -> None:
    named = {(source.name, page) for source in SOURCES for page in re.findall(r"docs/[\w/-]+\.md", source.read_text())}
    assert not [f"{name}: {page}" for name, page in sorted(named) if not (ROOT / page).is_file()]


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


@cache
def site() -> ModuleType:
    """docs/generate.py, which is no package."""
    where = importlib.util.spec_from_file_location("docs_generate", ROOT / "docs" / "generate.py")
    assert where is not None
    assert where.loader is not None
    module = importlib.util.module_from_spec(where)
    where.loader.exec_module(module)
    return module


@cache
def options() -> dict[tuple[str, ...], frozenset[str]]:
    """Every verb with the options that it takes."""
    names = {path: verb.params for path, verb in site().verbs(site().command())}
    common = {"--help", "-h"}
    return {path: frozenset(common.union(*((*p.opts, *p.secondary_opts) for p in ps))) for path, ps in names.items()}


def commands(page: Path) -> Iterator[list[str]]:
    """The calls of dosimeter in the blocks of a page, as arguments; a call goes on after a backslash or by indent."""
    for language, block in FENCE.findall(page.read_text(encoding="utf-8")):
        if language in ("python", "toml", "text", "json"):
            continue
        joined = re.sub(r"\\\n|\n(?=\s+--)", " ", block)
        for line in joined.splitlines():
            found = re.match(r"\s*(?:- |\$ )?dosimeter (.*)", line)
            if found:
                yield shlex.split(found[1], comments=True)


@pytest.mark.parametrize("page", DOCS, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_option_in_a_command_exists(page: Path) -> None:
    lost = []
    for words in commands(page):
        path = max((p for p in options() if tuple(words[: len(p)]) == p), key=len, default=None)
        named = {word.partition("=")[0] for word in words if re.match(r"-{1,2}[a-z]", word)}
        lost += (
            [" ".join(words)] if path is None else [f"{' '.join(path)} {o}" for o in sorted(named - options()[path])]
        )
    assert not lost


@pytest.mark.parametrize("page", DOCS, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_option_in_backticks_exists(page: Path) -> None:
    known = frozenset[str]().union(*options().values())
    named = {o for code in CODE.findall(prose(page)) for o in re.findall(r"(?<![\w-])--[a-z][a-z-]+", code)}
    assert named <= known


@every_page
def test_every_module_in_backticks_exists(page: Path) -> None:
    """`dosimeter.ledger.Ledger` and the like: a module, or a name in one."""
    lost = []
    for name in {n for code in CODE.findall(prose(page)) for n in re.findall(r"\bdosimeter(?:\.[a-z_]\w*)+", code)}:
        try:
            import_module(name)
        except ModuleNotFoundError:
            home, _, last = name.rpartition(".")
            if not hasattr(import_module(home), last):
                lost.append(name)
    assert not [name for name in lost if not name.endswith((".toml", ".py"))]


def sentences(page: Path) -> list[str]:
    """The sentences of a page: no code, formulas, tables, headings or link targets."""
    text = re.sub(r"^(```|:::).*?^\1\s*$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    text = re.sub(r"^(    .*|\|.*|\[[^\]]+\]:.*)$", "", text, flags=re.M)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", re.sub(r"^#.*$", "\n", text, flags=re.M))
    text = re.sub(r"^\s*([-*]|\d+\.)\s+", "\n", text, flags=re.M)
    paragraphs = (" ".join(part.split()) for part in re.split(r"\n\s*\n", text))
    whole = (re.sub(r"\b(eqs?|al|e\.g|i\.e)\.", r"\1", part) for part in paragraphs)
    return [s for part in whole for s in re.split(r"(?<=[.!?])[)\"*]*\s+(?=\W?[^\W_])", part) if len(s.split()) > 2]


@pytest.mark.parametrize("page", ENTRY, ids=lambda p: str(p.relative_to(ROOT)))
def test_an_entry_page_has_short_sentences(page: Path) -> None:
    lengths = {sentence: len(sentence.split()) for sentence in sentences(page)}
    assert [sentence for sentence, length in lengths.items() if length > 35] == []
    assert sum(lengths.values()) <= 17 * len(lengths)


@pytest.mark.parametrize("page", OTHERS, ids=lambda p: str(p.relative_to(ROOT)))
def test_the_other_pages_have_sentences_of_twenty_words(page: Path) -> None:
    """Formulas count as words, so a single sentence may have more."""
    lengths = {sentence: len(sentence.split()) for sentence in sentences(page)}
    assert [sentence for sentence, length in lengths.items() if length > 45] == []
    assert sum(lengths.values()) <= 20 * len(lengths)


@every_page
def test_the_pages_use_plain_words(page: Path) -> None:
    assert RETIRED.findall(prose(page).split(GENERATED)[0]) == []


def test_the_source_uses_plain_words() -> None:
    """Docstrings, messages and comments: most of them reach a reader, on a page, in a terminal or in the reference."""
    lost = []
    for source in (file for file in SOURCES if "src" in file.relative_to(ROOT).parts):
        for token in tokenize.generate_tokens(io.StringIO(source.read_text(encoding="utf-8")).readline):
            if token.type in TEXTS:
                lost += [f"{source.name}:{token.start[0]}: {phrase}" for phrase in METAPHOR.findall(token.string)]
    assert lost == []


def test_the_table_of_result_fields_is_that_of_the_types() -> None:
    """`python docs/generate.py` writes it."""
    assert site().RESULTS.read_text(encoding="utf-8") == site().results_page()


def test_the_command_line_page_has_every_verb_and_option() -> None:
    text = site().command_line()
    for path, names in options().items():
        assert f"{' '.join(path)}\n" in text
        assert [name for name in names - {"--help", "-h"} if name not in text] == []


def test_a_cell_shows_what_it_printed_and_its_last_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    cells = import_module("cells")
    try:
        page = cells.PageRun()
        assert page.python("x = 2\nprint('seen')\nx + 1") == ("seen\n", 3)
        assert page.python("y = x") == ("", None)
        assert page.shell("echo found; exit 3", 3) == "found\n"
        with pytest.raises(RuntimeError, match="ended with 1, not 0"):
            page.shell("false", 0)
        with pytest.raises(ZeroDivisionError):
            page.python("1 / 0")
        assert cells.commands("$ a \\\n  b\n$ c") == ["a \\\n  b", "c"]
        with pytest.raises(ValueError, match="commands only"):
            cells.commands("a")
    finally:
        sys.modules.pop("cells", None)


def test_the_pages_speak_of_the_product_alone() -> None:
    """No machine's paths and no addresses of package mirrors."""
    forbidden = re.compile(r"/home/|/Users/|/tmp/|file://|index-url|\.internal\b")
    assert not [p.name for p in PAGES if forbidden.search(p.read_text(encoding="utf-8"))]


def test_the_picture_shows_what_the_demo_says_today() -> None:
    from dosimeter.reports.layout import number
    from dosimeter.reports.sections.interpretation import times_right
    from dosimeter.workflows.demo import demo_measurement

    result = demo_measurement()
    drawn = (ROOT / "docs" / "demo.svg").read_text(encoding="utf-8")
    dose, meaning, verdict = result.dose, result.meaning, result.verdict
    assert meaning is not None
    assert verdict is not None
    shown = [number(value) for value in (dose.typical, dose.worst_1_percent, dose.highest)]
    shown += [f"row&#160;{dose.highest_row}", number(meaning.eta), str(verdict.above)]
    assert [figure for figure in shown if figure not in drawn] == []
    assert "url(" not in drawn.replace("url(#", "")
    assert times_right(verdict.limit).startswith("69 ")


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
