"""What the site reads off the program: the command line, verb by verb, and docstrings in the site's markup.

`python docs/generate.py` prints the command line's pages and writes the table of result fields into
docs/reference/results.md; the site itself needs no run of it in advance.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from dosimeter.cli.environment import plain_types, position

RESULTS = Path(__file__).parent / "reference" / "results.md"
MARK = "## Every field\n"
UNGROUPED = "Options"


def command() -> Any:
    """The whole command line as click knows it (typer may bring a click of its own, so types are not named)."""
    from dosimeter.cli.main import command_line as commands

    return commands()


def verbs(root: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every verb and every verb below a verb, with the names that lead to it, in the order of `--help`."""
    for name, verb in getattr(root, "commands", {}).items():
        if verb.hidden:
            continue
        yield (*path, name), verb
        yield from verbs(verb, (*path, name))


def command_line() -> str:
    """Markdown of all verbs: usage, what it does, arguments, options by group."""
    return "\n".join(line for path, verb in verbs(command()) for line in _verb(path, verb))


def _verb(path: tuple[str, ...], verb: Any) -> Iterator[str]:
    context = verb.context_class(verb, info_name=" ".join(("dosimeter", *path)))
    yield from ("#" * (1 + len(path)) + " " + " ".join(path), "")
    shown = [p for p in verb.params if not getattr(p, "hidden", False) and p.name != "help"]
    arguments = [p for p in shown if p.param_type_name == "argument"]
    places = [_place(p) if p.required else f"[{_place(p)}]" for p in arguments]
    usage = " ".join([context.info_name, *(["VERB"] if hasattr(verb, "commands") else []), *places, "[OPTIONS]"])
    yield from ("```", usage, "```", "", _paragraphs(verb.help or ""), "")
    if arguments:
        yield from ("| argument | |", "|---|---|")
        yield from (f"| `{_place(p)}` | {_cell(getattr(p, 'help', '') or '')} |" for p in arguments)
        yield ""
    groups: dict[str, list[Any]] = {}
    for option in shown:
        if option.param_type_name == "option":
            groups.setdefault(getattr(option, "rich_help_panel", None) or UNGROUPED, []).append(option)
    for title, options in sorted(groups.items(), key=lambda group: position(group[0])):
        yield from (f"| {title} | | |", "|---|---|---|")
        yield from (_option(option, context) for option in options)
        yield ""


def _place(argument: Any) -> str:
    return str(argument.metavar or argument.name.upper()).strip("[]{}").upper()


def _option(option: Any, context: Any) -> str:
    names = plain_types(" ".join(option.get_help_record(context)[0].split()))
    default = option.default
    said = "required" if option.required else ""
    if not option.is_flag and default not in (None, (), [], "") and not callable(default):
        said = f"`{getattr(default, 'value', default)}`"
    return f"| `{names}` | {_cell(option.help or '')} | {said} |"


def _cell(text: str) -> str:
    return _escaped(" ".join(text.split())).replace("|", "\\|")


def _paragraphs(text: str) -> str:
    return _escaped("\n\n".join(" ".join(part.split()) for part in text.replace("\b", "").split("\n\n")))


def _escaped(text: str) -> str:
    """Markdown in which `<`, `*`, `_` and brackets of help texts are letters; code in backticks stays code."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(p if p.startswith("`") else re.sub(r"([\\<>*_\[\]{}])", r"\\\1", p) for p in parts)


def results_page() -> str:
    """docs/reference/results.md as it must be: the part written by hand, then the table of the result types."""
    from dosimeter.results.editions import table

    head = RESULTS.read_text(encoding="utf-8").split(MARK)[0]
    return f"{head}{MARK}\n{table()}"


def measurable_models() -> str:
    """A Markdown table of the registered adapters."""
    from dosimeter.adapters.registry import adapters

    lines = ["## Estimators", "", "| library | model | what is measured |", "|---|---|---|"]
    shown = [entry for entry in adapters() if entry.library != "dosimeter"]
    lines += [f"| {a.library} | {', '.join(f'`{c}`' for c in a.classes)} | {_cell(a.remark)} |" for a in shown]
    lines += ["| | coefficients as JSON (`--model model.json`) | exact; loss and penalty as stated |", ""]
    return "\n".join(lines)


def refused_models() -> str:
    """A Markdown table of the refusals."""
    from dosimeter.adapters.refusals import REASONS

    rows = [f"| {', '.join(f'`{part}…`' for part in parts)} | it {why} | {todo} |" for parts, why, todo in REASONS]
    return "\n".join(["| name contains | why | instead |", "|---|---|---|", *rows, ""])


def preprocessing_steps() -> str:
    """Markdown of all registered steps: class, how it is read, what is worth knowing."""
    from dosimeter.adapters.steps import STEPS

    kinds = sorted(STEPS.values(), key=lambda kind: (list(type(kind.route)).index(kind.route), kind.name))
    names = {kind.name: "a formula of statsmodels" if kind.name == "Formula" else f"`{kind.name}`" for kind in kinds}
    rows = [f"| {names[kind.name]} | {kind.route.value} | {_cell(kind.remark)} |" for kind in kinds]
    other = "| any other class with `transform` | by differences | rows must not mix, and numbers must not jump |"
    return "\n".join(["| step | route | |", "|---|---|---|", *rows, other])


class RootPage(SphinxDirective):
    """A page of the repository's root, such as CONTRIBUTING.md, with its links turned to pages of the site."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        file = Path(self.env.srcdir).parent / self.arguments[0]
        self.env.note_dependency(str(file))
        text = re.sub(r"(\]\(|\]: )docs/", r"\1../", file.read_text(encoding="utf-8"))
        text = re.sub(r"\]\(([A-Z]+)\.md", lambda m: f"]({m[1].lower()}.md", text)
        return self.parse_text_to_nodes(text.partition("\n")[2], allow_section_headings=True)


class CommandLine(SphinxDirective):
    """All verbs, generated."""

    def run(self) -> list[nodes.Node]:
        return self.parse_text_to_nodes(command_line(), allow_section_headings=True)


class MeasurableModels(SphinxDirective):
    """What has an adapter, generated."""

    def run(self) -> list[nodes.Node]:
        return self.parse_text_to_nodes(measurable_models(), allow_section_headings=True)


class RefusedModels(SphinxDirective):
    """What is refused and why, generated."""

    def run(self) -> list[nodes.Node]:
        return self.parse_text_to_nodes(refused_models())


class PreprocessingSteps(SphinxDirective):
    """All registered steps, generated."""

    def run(self) -> list[nodes.Node]:
        return self.parse_text_to_nodes(preprocessing_steps())


ATTRIBUTES = ("attribute", "data", "property")


def docstring(app: Sphinx, kind: str, name: str, item: Any, options: Any, lines: list[str]) -> None:
    """Letters of formulas that reStructuredText would read as markup: `*`, `|`, and `_` at the end of a word."""
    doctest = False
    for number, line in enumerate(lines):
        doctest = line.lstrip().startswith((">>>", "...")) or (doctest and bool(line.strip()))
        if not doctest and not re.fullmatch(r"\s*-{3,}\s*", line):
            parts = re.split(r"(`[^`]*`)", line)
            lines[number] = "".join(p if p.startswith("`") else _escaped_rst(p) for p in parts)

    if kind in ATTRIBUTES:  # napoleon takes what is before the first colon for a type
        app.env.temp_data["attribute"] = [*lines]


def attribute(app: Sphinx, kind: str, name: str, item: Any, options: Any, lines: list[str]) -> None:
    """After napoleon: an attribute's docstring as it was."""
    if kind in ATTRIBUTES:
        lines[:] = app.env.temp_data.pop("attribute")


def skip(app: Sphinx, kind: str, name: str, item: Any, skipped: bool, options: Any) -> bool | None:
    """Modules, and methods that scikit-learn adds to every estimator for the routing of metadata."""
    return True if inspect.ismodule(item) or re.fullmatch(r"set_\w+_request|get_metadata_routing", name) else None


def _escaped_rst(text: str) -> str:
    return re.sub(r"([*|]|_(?!\w))", r"\\\1", text)


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("command-line", CommandLine)
    app.add_directive("preprocessing-steps", PreprocessingSteps)
    app.add_directive("root-page", RootPage)
    app.add_directive("measurable-models", MeasurableModels)
    app.add_directive("refused-models", RefusedModels)
    app.connect("autodoc-process-docstring", docstring, priority=100)  # before napoleon reads the sections
    app.connect("autodoc-process-docstring", attribute, priority=900)
    app.connect("autodoc-skip-member", skip)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


if __name__ == "__main__":
    RESULTS.write_text(results_page(), encoding="utf-8")
    sys.stdout.write(command_line() + "\n")
