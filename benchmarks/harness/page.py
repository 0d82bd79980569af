"""The page of a benchmark: a chart for each row, the table, the machine. One HTML file that fetches nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from dosimeter.reports.charts import Axis, Span, dots, figure
from dosimeter.reports.layout import Drawing, Grid
from dosimeter.reports.standalone_page import standalone_page
from harness.reference import Key, Worsening
from harness.registry import ROWS, Ratio

RATIO = Axis("our seconds over the peer's", log=True)
LEAD = (
    "Each point is our time over the peer's: left of 1 we are faster. The bar goes to the stored ratio. Least of "
    "several runs, both sides in turns, one thread, seconds of the processor."
)


def page(
    ratios: Mapping[Key, Ratio],
    stored: Mapping[Key, float],
    worse: Sequence[Worsening],
    skipped: Mapping[Key, str],
    about: Mapping[str, str],
) -> str:
    """The whole page."""
    parts = [Markup('<main class="sheet"><h1>Benchmark</h1><p>{}</p>').format(LEAD)]
    parts += [Markup("<p><strong>Worse than stored: {}</strong></p>").format(str(line)) for line in worse]
    for key in dict.fromkeys(row for row, _ in ratios):
        parts.append(figure(row_drawing(key, ratios, stored)))
    if skipped:
        lines = Markup("").join(Markup("<li>{}, {}: {}</li>").format(*key, why) for key, why in skipped.items())
        parts.append(Markup("<h2>Not compared here</h2><ul>{}</ul>").format(lines))
    rows = Markup("").join(Markup("<dt>{}</dt><dd>{}</dd>").format(*pair) for pair in about.items())
    parts.append(Markup("<h2>Machine and versions</h2><dl>{}</dl></main>").format(rows))
    return standalone_page("Benchmark", Markup("").join(parts))


def row_drawing(key: str, ratios: Mapping[Key, Ratio], stored: Mapping[Key, float]) -> Drawing:
    """The ratios of one row, each with a bar to the stored one."""
    title = ROWS[key].title if key in ROWS else key
    spans, rows = [], []
    for place, ratio in ratios.items():
        if place[0] != key:
            continue
        before = stored.get(place, ratio.ratio)
        spans.append(Span(ratio.name, ratio.ratio, min(before, ratio.ratio), max(before, ratio.ratio)))
        known = stored.get(place)
        rows.append((ratio.name, ratio.ours, ratio.peer, ratio.ratio, known, ratio.limit, ratio.against))
    headings = ("comparison", "ours, s", "peer, s", "ratio", "stored", "limit", "peer")
    return Drawing(title, dots(title, RATIO, spans), Grid(title, headings, tuple(rows)))
