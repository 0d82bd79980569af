"""The report of `pca`: what each edition and each medium says, and what the external edition never does."""

from __future__ import annotations

import json

import pytest

from dosimeter.reports.document import document, dose_statistics
from dosimeter.reports.html import to_html
from dosimeter.reports.layout import DefinitionList, Grid, Paragraph
from dosimeter.reports.model_card import to_card
from dosimeter.reports.terminal import to_text
from dosimeter.results.components import ComponentsRelease
from dosimeter.results.editions import external
from dosimeter.results.result import read
from tests.reports.samples import sample


def components(**changes) -> ComponentsRelease:
    """The made-up result, some fields changed."""
    return read(sample("components", **changes))


def guarantee(**changes):
    return {**sample("components")["guarantee"], **changes}


def inside(**changes):
    return {**sample("components")["internal"], **changes}


def open_result() -> ComponentsRelease:
    """Bounds read off the table."""
    return components(private=False, guarantee=guarantee(holds=False, standing="unaccounted"))


def definitions(report):
    lists = [part for section in report.sections for part in section.parts if isinstance(part, DefinitionList)]
    return {name: value for part in lists for name, value in part.pairs}


def text_of(report, heading):
    (section,) = [section for section in report.sections if section.heading == heading]
    return " ".join(part.text for part in section.parts if isinstance(part, Paragraph))


def test_the_internal_edition_has_every_section_in_order():
    report = document(components(), "internal")
    assert [section.heading for section in report.on("page")] == [
        "What was promised", "Dose", "Most exposed", "Checked by attack", "What the components are worth", "Ledger",
        "Assumptions and what is not covered", "How to reproduce it",
    ]  # fmt: skip
    assert [chart.title for chart in report.drawings] == [
        "Dose (η) per row",
        "AUC by components seen",
        "Explained variance",
    ]
    assert all(chart.grid.rows and chart.says for chart in report.drawings)


def test_the_external_edition_draws_nothing_that_was_computed_without_protection():
    report = document(components())
    assert report.drawings == ()
    assert [section.heading for section in report.sections][:2] == ["What was promised", "Ledger"]
    assert "e^ε = 2.72" in text_of(report, "What was promised")


def test_components_from_bounds_of_the_table_claim_nothing():
    report = document(open_result())
    assert report.verdict.tone == "bad"
    assert report.verdict.gauge is None
    assert "not claimed" in definitions(report)["(ε, δ)"]
    assert "e^ε" not in text_of(report, "What was promised")
    assert "not claimed" in report.verdict.text


def test_components_with_bounds_of_the_table_keep_scales_cost_and_rows_inside():
    kept, withheld = external(components()).to_dict(), external(open_result()).to_dict()
    assert kept["rows_public"] == 100
    assert kept["noise"]["scale_low"] > 0
    assert set(withheld["noise"]) == {"on", "law", "mean_share"}
    assert "rows_public" not in withheld
    assert "costs" not in withheld["guarantee"]
    assert "holds" not in withheld["guarantee"]
    assert any("read off the table" in note for note in document(open_result()).figures["withheld"])


def test_no_figure_of_the_inside_is_in_the_external_page():
    """Each number that the external edition does not have is made unique, and looked for in the whole page."""
    allowed = json.dumps(external(components()).to_dict())
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

    page = to_html(read(plant(sample("components"))))
    assert len(planted) > 20
    assert not [digits for digits in planted if digits in page]


def test_a_noise_that_does_not_prove_its_budget_releases_nothing_and_says_so():
    report = document(components(guarantee=guarantee(holds=False, costs=1.7)), "internal")
    assert report.verdict.text == (
        "Not proved, nothing was released: epsilon 1 and delta 1e-06 were stated, and this noise costs epsilon 1.7."
    )
    assert report.verdict.tone == "bad"
    assert "not proved" in definitions(report)["(ε, δ)"]


def test_the_attack_is_shown_before_and_after_the_noise_beside_chance():
    report = document(components(), "internal")
    (grid,) = [part for section in report.sections for part in section.parts
               if isinstance(part, Grid) and part.caption.startswith("The attack")]  # fmt: skip
    assert grid.headings == ("", "before the noise", "after the noise")
    figures = {row[0]: row[1:] for row in grid.rows}
    assert figures["AUC"] == pytest.approx((0.7, 0.55))
    assert figures["by chance"] == ("0.400 to 0.600", "0.400 to 0.600")
    (chart,) = [drawing for drawing in report.drawings if drawing.title == "AUC by components seen"]
    names = {value["series"] for layer in chart.spec["layer"] for value in layer["data"]["values"]}
    assert names == {"before the noise", "after the noise", "by chance (95 % of random splits)"}


def test_a_terminal_says_what_the_figures_compare_and_what_became_of_odd_rows():
    text = " ".join(to_text(components(internal=inside(rows_left_out=3, labels_outside_the_list=2))).split())
    for sentence in (
        "1/η is the least error of an unbiased guess, in half ranges",
        "the noise is Laplace",
        "One person has 3 rows",
        "2.0% of the rows lay outside the bounds",
        "2 labels are not in the public list and count as none",
        "3 rows with a missing or unreadable value count among the 100 as the public centre",
        "2 of 3 (0.9 of the noisy variance), by analyze-gauss",
        "Do not publish",
    ):
        assert sentence in text
    assert "patient" not in text  # the most exposed are on the page


def test_a_gap_of_a_person_adds_nothing():
    people = sample("components")
    del people["rows_public"]
    people |= {"people_public": 50, "guarantee": guarantee(unit="person"), "internal": inside(rows_left_out=3)}
    text = " ".join(to_text(read(people)).split())
    assert "add nothing; a person without a complete row counts as the public centre" in text
    assert "a person, all their rows together" in text


def test_the_card_has_the_guarantee_and_the_noise():
    card = to_card(components())
    for line in (
        "| (ε, δ) | (1, 1e-06) |", "| standing | upper bound |", "| neighbours | replace-one |",
        "| scale | 0.01 to 0.02 |", "gaussian on each distinct entry of the second moment",
    ):  # fmt: skip
        assert line in card
    assert "0.97" not in card  # explained variance is internal
    assert "| (ε, δ) | (1, 1e-06): not claimed |" in to_card(open_result())


def test_statistics_are_about_twenty_people_or_more():
    statistics = dose_statistics(components())
    assert set(statistics) == {"says"}
    many = {**sample("components")["internal"]["distribution"], "counts": [40, 90, 20]}
    statistics = dose_statistics(components(internal=inside(distribution=many)))
    assert statistics["typical"] == 0.4
    assert statistics["captured_variance"] == 0.97
    assert (statistics["auc_before_noise"], statistics["auc_after_noise"]) == (0.7, 0.55)
    assert "typical_membership" not in statistics
    assert sum(row["rows"] for row in statistics["histogram"]) == 151  # one of them without any dose


def test_the_result_as_a_frame_and_as_a_plot():
    frame = components().to_frame()
    assert list(frame.columns) == ["k", "best", "released", "at_random"]
    assert len(frame) == 3
    assert repr(components().plot()) == "<Plot: Explained variance>"
