"""The report of `pate`: the bound to publish apart from what is internal, in every edition and medium."""

from __future__ import annotations

import json

from dosimeter.core.face import speaking
from dosimeter.reports.document import document, dose_statistics
from dosimeter.reports.html import to_html
from dosimeter.reports.layout import DefinitionList, Grid, Paragraph
from dosimeter.reports.model_card import to_card
from dosimeter.reports.terminal import to_text
from dosimeter.results.editions import external
from dosimeter.results.labels import LabelRelease
from dosimeter.results.result import read
from tests.reports.samples import sample


def labels(**changes) -> LabelRelease:
    """The made-up result, some fields changed."""
    return read(sample("labels", **changes))


def bound(**changes):
    return {**sample("labels")["publishable"], **changes}


def inside(**changes):
    return {**sample("labels")["internal"], **changes}


def unlisted() -> LabelRelease:
    """The classes were read off the private table."""
    return labels(publishable=bound(standing="unaccounted", epsilon_standing="unaccounted"))


def definitions(report):
    lists = [part for section in report.sections for part in section.parts if isinstance(part, DefinitionList)]
    return {name: value for part in lists for name, value in part.pairs}


def text_of(report, heading):
    (section,) = [section for section in report.sections if section.heading == heading]
    return " ".join(part.text for part in section.parts if isinstance(part, Paragraph))


def test_the_internal_edition_has_every_section_in_order():
    report = document(labels(), "internal")
    assert [section.heading for section in report.on("page")] == [
        "What was promised", "Bound and exact", "Leakage by query", "Leakage by teacher", "What the labels are worth",
        "Teachers and rows", "Ledger", "Assumptions and what is not covered", "How to reproduce it",
    ]  # fmt: skip
    assert [chart.title for chart in report.drawings] == ["nats per person", "Leakage by query", "Leakage by teacher"]
    assert all(chart.grid.rows and chart.says for chart in report.drawings)


def test_the_external_edition_has_the_bound_and_nothing_that_was_computed_from_votes():
    report = document(labels())
    assert report.drawings == ()
    assert [section.heading for section in report.sections][:3] == [
        "What was promised", "What the labels are worth", "Ledger",
    ]  # fmt: skip
    shown = definitions(report)
    assert shown["at most"] == "4 nats in all, 0.2 per query"
    assert shown["teachers"] == "40"  # and not whose, nor from which file
    assert "At most 4 nats" in text_of(report, "What was promised")
    assert "plain vote" not in to_html(labels())


def test_no_figure_of_the_inside_is_in_the_external_page():
    """Each number that the external edition does not have is made unique, and looked for in the whole page."""
    allowed = json.dumps(external(labels()).to_dict())
    planted = []

    def plant(value):
        if isinstance(value, dict):
            return {key: plant(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [plant(inner) for inner in value]
        if isinstance(value, float) and 0 < value < 1e6 and f"{value:g}" not in allowed:
            planted.append(f"{len(planted)}731{len(planted)}")
            return float(f"0.{planted[-1]}")
        return value

    page = to_html(read(plant(sample("labels"))))
    assert len(planted) > 3
    assert not [digits for digits in planted if digits in page]


def test_classes_that_were_not_listed_withhold_every_figure():
    report = document(unlisted())
    assert report.verdict.text.startswith("No figure is claimed for these labels")
    assert report.verdict.tone == "bad"
    assert report.verdict.gauge is None
    withheld = {"nats", "nats_per_query", "factor", "epsilon", "noise", "threshold", "classes"}
    assert not withheld & set(external(unlisted()).to_dict()["publishable"])
    assert definitions(report)["standing"] == "unaccounted: nothing is claimed"
    assert "List them with" not in text_of(report, "What was promised")
    with speaking("command line"):
        told = text_of(document(unlisted(), "internal"), "What was promised")
    assert "Nothing to publish: the classes were read off the private table" in told
    assert "List them with --classes" in told
    assert "If these 2 classes had been listed in advance: at most 4 nats" in told


def test_the_bound_is_about_persons_only_if_ids_decide_their_teachers():
    assert "any one teacher's data grows by" in text_of(document(labels()), "What was promised")
    unit = "teacher's part, and so any person in it, given who is in the table"
    named = document(labels(publishable=bound(unit=unit, nats_who=6.0)))
    assert "hence about any one person's, given who is in the table, grows" in text_of(named, "What was promised")
    assert definitions(named)["who the person is included"].startswith("at most 6 nats in all")


def test_a_terminal_says_how_good_the_labels_are_and_what_became_of_odd_rows():
    counts = inside(teachers_with_one_class=1, teachers_without_rows=2, rows_left_out=6, persons_left_out=2)
    text = " ".join(to_text(labels(internal=counts)).split())
    for sentence in (
        "labelled 20 of 200 public rows, 1 refused",
        "teachers 40, of 400 people (patients.csv)",
        "labels 92.0%",
        "the student's answers on the other public rows 90.0%",
        "Noisy label = plain vote for 93% of those answered",
        "1 of 40 teachers lack a class; 1 of them have one only and always vote for it",
        "2 of 40 teachers have no rows and vote by a public rule: take fewer teachers",
        "Private rows left out for a missing value or an unlisted class: 6; persons without a row left: 2",
        "Beside it, never added to it: (ε, δ) = (6.1, 1e-05)",
        "Do not publish",
    ):
        assert sentence in text


def test_the_exact_figures_are_beside_the_bound():
    report = document(labels(), "internal")
    (grid,) = [part for section in report.sections for part in section.parts
               if isinstance(part, Grid) and part.caption.startswith("Nats")]  # fmt: skip
    assert [row[1] for row in grid.rows] == [0.02, 0.4, 4.0]
    assert report.verdict.gauge.marks == (("typical", 0.02), ("highest", 0.4), ("bound", 4.0))
    assert document(labels()).verdict.gauge.marks == (("bound", 4.0),)


def test_the_card_has_the_bound_and_what_is_not_covered():
    card = to_card(labels())
    for line in (
        "| at most | 4 nats in all, 0.2 per query |", "| noise on each count of votes | Laplace(b=5) |",
        "| standing | upper bound |", "the choice of the queries", "(6.1, 1e-05)",
    ):  # fmt: skip
        assert line in card
    assert "0.93" not in card
    assert "nats in all" not in to_card(unlisted())


def test_statistics_are_about_twenty_people_or_more():
    assert set(dose_statistics(labels())) == {"says"}
    many = {**sample("labels")["internal"]["distribution"], "counts": [40, 90, 20], "zero": 0}
    statistics = dose_statistics(labels(internal=inside(distribution=many)))
    assert statistics["typical_nats"] == 0.02
    assert sum(row["people"] for row in statistics["histogram"]) == 150


def test_the_result_as_a_frame_and_as_a_plot():
    frame = labels().to_frame()
    assert list(frame.columns) == ["query", "nats"]
    assert len(frame) == 3
    assert repr(labels().plot()) == "<Plot: Leakage by query>"
