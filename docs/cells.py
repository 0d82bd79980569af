"""Cells that run while the site is built: Python, and commands for the shell.

    ```{code-cell} python          the statements are run; what they print and the value of the last line are shown
    ```{code-cell} console         each line that begins with `$ ` is run; what it prints is shown below it

Cells of one page share their names and one empty folder, in the order of the page. A cell that raises fails the build,
and so does a command whose exit code is not what `:exit:` says (0 unless stated). The directive has the name and the
form of a MyST notebook's, so a page can be opened as a notebook too. The losing alternative, myst-nb, starts a Jupyter
kernel for each page, with forty packages and sockets that a build machine may forbid.
"""

from __future__ import annotations

import ast
import contextlib
import io
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import traceback
import warnings
import weakref
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

WIDTH = "96"
SECONDS = 600
"""A command that takes longer is a mistake of the page."""


class PageRun:
    """The names and the folder that the cells of one page share."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {"__name__": "__main__"}
        self.folder = tempfile.mkdtemp(prefix="dosimeter-docs-")
        weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)
        shim = Path(self.folder, ".bin", "dosimeter")
        shim.parent.mkdir()
        shim.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m dosimeter "$@"\n', encoding="utf-8")
        shim.chmod(0o755)
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("DOSIMETER_")},
            "PATH": os.pathsep.join([str(shim.parent), os.environ.get("PATH", "")]),
            "PYTHONPATH": os.pathsep.join(str(Path(place).resolve()) for place in sys.path if place),
            "COLUMNS": WIDTH,
            "NO_COLOR": "1",
            "OPENBLAS_NUM_THREADS": "1",
        }

    def python(self, source: str) -> tuple[str, Any]:
        """Run the statements; what they print, and the value of the last one if it is an expression."""
        tree = ast.parse(source)
        if tree.body and isinstance(last := tree.body[-1], ast.Expr):
            tree.body[-1] = ast.Assign([ast.Name("_", ast.Store())], last.value)
        self.names["_"] = None
        printed = io.StringIO()
        with contextlib.chdir(self.folder), contextlib.redirect_stdout(printed), warnings.catch_warnings():
            warnings.simplefilter("error")
            exec(compile(ast.fix_missing_locations(tree), "<cell>", "exec"), self.names)
        return printed.getvalue(), self.names["_"]

    def shell(self, command: str, exit_code: int) -> str:
        """Run one command; everything that it prints. Another exit code than the stated one is an error."""
        run = subprocess.run(
            command,
            shell=True,
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            timeout=SECONDS,
        )
        if run.returncode != exit_code:
            raise RuntimeError(f"`{command}` ended with {run.returncode}, not {exit_code}:\n{run.stdout}")
        return run.stdout.replace(f"{os.path.realpath(self.folder)}{os.sep}", "").replace(f"{self.folder}{os.sep}", "")


def commands(source: str) -> list[str]:
    """The commands of a console cell; a line that ends in a backslash goes on in the next.

    >>> commands("$ a \\\\\\n    b\\n$ c")
    ['a \\\\\\n    b', 'c']
    """
    found: list[str] = []
    for line in source.splitlines():
        if line.startswith("$ "):
            found.append(line[2:])
        elif found and found[-1].endswith("\\"):
            found[-1] += "\n" + line
        elif line.strip():
            raise ValueError(f"a console cell has commands only, each after '$ ': {line!r}")
    return found


class Cell(SphinxDirective):
    """One cell of a page: run it, show it, show what it gave."""

    has_content = True
    required_arguments = 1
    option_spec: ClassVar[dict[str, Any]] = {"exit": directives.nonnegative_int, "hide-output": directives.flag}

    def run(self) -> list[nodes.Node]:
        page = self.env.temp_data.setdefault("cells", PageRun())
        source = "\n".join(self.content)
        language = self.arguments[0]
        try:
            if language == "python":
                return [self.shown(source, "python"), *self.outcome(*page.python(source))]
            if language == "console":
                return self.console(page, source)
        except Exception:
            raise self.error(f"the cell failed:\n{source}\n\n{traceback.format_exc(limit=-3)}") from None
        raise self.error(f"a cell is python or console, not {language!r}")

    def shown(self, text: str, language: str) -> nodes.literal_block:
        block = nodes.literal_block(text, text, language=language)
        self.set_source_info(block)
        return block

    def result(self, text: str) -> nodes.literal_block:
        block = self.shown(text, "none")
        block["classes"].append("cell-output")
        return block

    def outcome(self, printed: str, value: Any) -> list[nodes.Node]:
        if "hide-output" in self.options:
            return []
        out: list[nodes.Node] = [self.result(printed.rstrip())] if printed.strip() else []
        if value is None:
            return out
        if hasattr(value, "_repr_html_") and (html := value._repr_html_()):
            return [*out, nodes.raw("", f'<div class="cell-output">{html}</div>', format="html")]
        return [*out, self.result(repr(value))]

    def console(self, page: PageRun, source: str) -> list[nodes.Node]:
        out: list[nodes.Node] = []
        for command in commands(source):
            printed = page.shell(command, self.options.get("exit", 0)).rstrip()
            out.append(self.shown(f"$ {command}", "console"))
            if printed and "hide-output" not in self.options:
                out.append(self.result(printed))
        return out


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("code-cell", Cell)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
