"""Draws docs/demo.svg: what `dosimeter demo` shows. Run it by `make picture`."""

from __future__ import annotations

import io
import re
from pathlib import Path

from rich.console import Console

from dosimeter.cli import demo


def main() -> None:
    """Run the demo on a recording console and save what it printed."""
    recorder = Console(record=True, width=104, file=io.StringIO(), highlight=False, markup=False, force_terminal=True)
    recorder.print("$ dosimeter demo", style="bold")
    demo.tell(demo.figures(), recorder)
    drawn = recorder.export_svg(title="dosimeter demo")
    # No font is fetched from anywhere: the picture must look alike on a machine without a network.
    drawn = re.sub(r"@font-face \{.*?\}", "", drawn, flags=re.DOTALL).replace("Fira Code, monospace", "monospace")
    drawn = "\n".join(line.rstrip() for line in drawn.splitlines()) + "\n"
    Path(__file__).with_name("demo.svg").write_text(drawn, encoding="utf-8")


if __name__ == "__main__":
    main()
