"""`pca`: what is written and said, and that every slip is one line, exit 2, and nothing written."""

from __future__ import annotations

import json
import zipfile

import numpy as np
import pytest

from dosimeter.cli.main import run

from .test_bad_input import csv

rng = np.random.default_rng(5)
N = 300
AGE = np.clip(rng.normal(50, 12, N), 20, 90).round(1)
WEIGHT = (60 + 0.4 * (AGE - 50) + rng.normal(0, 6, N)).round(2)
PEOPLE = {
    "id": [f"p{i // 2}" for i in range(N)],
    "age": AGE,
    "weight": WEIGHT,
    "height": (165 + 0.5 * (WEIGHT - 60) + rng.normal(0, 4, N)).round(2),
    "city": rng.choice(["Graz", "Ulm", "Bonn"], N),
}
BOUNDS = """
[age]
lower = 18
upper = 100
[weight]
lower = 30
upper = 150
centre = 60
[height]
lower = 120
upper = 210
[city]
levels = ["Bonn", "Graz", "Ulm"]
"""
GOOD = "--epsilon 1 --person id --components 2"


@pytest.fixture
def people(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text(csv(PEOPLE))
    return path


@pytest.fixture
def bounds(tmp_path):
    path = tmp_path / "bounds.toml"
    path.write_text(BOUNDS)
    return path


def released(people, bounds, tmp_path, capsys, extra=""):
    out = tmp_path / "components.skops"
    line = f"{GOOD} --json - -q {extra}".split()
    assert run(["pca", str(people), *line, "--bounds", str(bounds), "--out", str(out)]) == 0
    return json.loads(capsys.readouterr().out), out


def test_the_written_object_is_scikit_learns_and_works_without_us(people, bounds, tmp_path, capsys):
    import pandas as pd
    import skops.io as sio

    facts, out = released(people, bounds, tmp_path, capsys, "--mean-share 0")
    assert sio.get_untrusted_types(file=out) == []
    model = sio.load(out)
    frame = pd.read_csv(people)
    scores = model.transform(frame)
    assert scores.shape == (N, 2)
    np.testing.assert_array_equal(model.transform(frame[frame.columns[::-1]]), scores)  # by name
    pca = model.named_steps["components"]
    assert type(pca).__module__.startswith("sklearn.")
    np.testing.assert_allclose(pca.components_ @ pca.components_.T, np.eye(2), atol=1e-12)
    assert (pca.explained_variance_ >= 0).all()
    assert pca.components_.shape[1] == pca.n_features_in_ == 6
    # By hand: the columns between -1 and 1, then an indicator for each level.
    low, high = np.array([18, 30, 120]), np.array([100, 150, 210])
    by_hand = [2 * (frame[["age", "weight", "height"]].to_numpy() - low) / (high - low) - 1]
    by_hand += [(frame[["city"]].to_numpy() == [["Bonn", "Graz", "Ulm"]]).astype(float)]
    np.testing.assert_allclose(scores, (np.hstack(by_hand) - pca.mean_) @ pca.components_.T, atol=1e-12)
    np.testing.assert_allclose(pca.mean_, [0, -0.5, 0, 0, 0, 0])  # the centre 60 of [30, 150] is -0.5 of [-1, 1]
    assert facts["written"] == str(out)
    assert model.recipe_["private"] is True
    assert model.recipe_["epsilon"] == 1.0


def test_nothing_of_a_person_is_in_the_file(people, bounds, tmp_path, capsys):
    _, out = released(people, bounds, tmp_path, capsys)
    with zipfile.ZipFile(out) as archive:
        held = b"".join(archive.read(name) for name in archive.namelist())
    assert b"p149" not in held
    import skops.io as sio

    model = sio.load(out)
    kept = [np.ravel(v) for step in (model[-1], model[0].named_transformers_["bounded"]) for v in vars(step).values()
            if isinstance(v, float | np.ndarray)]  # fmt: skip
    numbers = np.concatenate([v.astype(float) for v in kept if v.dtype.kind == "f"])
    for column in ("age", "weight", "height"):
        for statistic in (PEOPLE[column].mean(), PEOPLE[column].std(), PEOPLE[column].max(), PEOPLE[column].min()):
            assert not np.isclose(np.abs(numbers), statistic, rtol=1e-9).any()


def test_two_runs_give_different_noise(people, bounds, tmp_path, capsys):
    import skops.io as sio

    first = sio.load(released(people, bounds, tmp_path, capsys)[1])[-1].components_
    second = sio.load(released(people, bounds, tmp_path, capsys)[1])[-1].components_
    assert (first != second).all()


def test_what_is_told_is_the_guarantee_and_what_is_internal(people, bounds, tmp_path, capsys):
    facts, _ = released(people, bounds, tmp_path, capsys)
    told = facts["guarantee"]
    assert (told["epsilon"], told["delta"], told["neighbours"], told["unit"]) == (1.0, 1e-6, "replace-one", "person")
    assert told["holds"]
    assert told["costs"] <= 1 + 1e-9
    assert told["standing"] == "upper bound"
    inside = facts["internal"]
    assert inside["most_rows_of_a_person"] == 2
    assert inside["people"] == facts["people_public"] == N // 2
    assert "rows_public" not in facts  # how many rows a person has is private
    assert 0 <= inside["captured"]["at_random"] <= inside["captured"]["q"] + 1
    assert inside["dose"]["highest"] >= inside["dose"]["typical"] > 0
    assert inside["dose"]["standing"] == inside["membership"]["standing"] == "upper bound"
    assert facts["booked"] is False


def test_the_noise_is_that_of_the_declared_bounds_and_not_of_the_rows(people, tmp_path, capsys):
    """The scale by hand: three columns in [-1, 1] about 0, analytic Gaussian, one row replaced."""
    from dp_accounting.gaussian_mechanism import get_sigma_gaussian

    narrow = tmp_path / "narrow.toml"
    narrow.write_text(BOUNDS.replace("centre = 60", "").split("[city]")[0] + "\n")
    facts, _ = released(people, narrow, tmp_path, capsys, "--exclude city --mean-share 0")
    # ‖lower(zzᵀ - z'z'ᵀ)‖ of corners: z and z' differ in one sign, two of three products change by 2.
    by_hand = np.sqrt(2 * 2.0**2)
    worst = max(
        np.linalg.norm((np.outer(z, z) - np.outer(w, w))[np.tril_indices(3)])
        for z in np.stack(np.meshgrid(*[[-1, 0, 1]] * 3), -1).reshape(-1, 3)
        for w in np.stack(np.meshgrid(*[[-1, 0, 1]] * 3), -1).reshape(-1, 3)
    )
    scale = facts["noise"]["scale_low"] * (N // 2) / get_sigma_gaussian(1.0, 1e-6)  # of people: two rows each
    assert facts["noise"]["scale_low"] == facts["noise"]["scale_high"]
    assert worst >= by_hand
    assert worst * (1 - 1e-9) <= scale <= 3.0 * (1 + 1e-6)  # ΣM² = 3 bounds it


def test_rows_outside_the_bounds_are_clipped_and_counted(people, tmp_path, capsys):
    tight = tmp_path / "tight.toml"
    tight.write_text(BOUNDS.replace("upper = 100", "upper = 40").replace('"Ulm"', '"Rome"'))
    facts, _ = released(people, tight, tmp_path, capsys)
    assert facts["internal"]["clipped_share"] == pytest.approx(np.mean(AGE > 40), abs=1e-12)
    assert facts["internal"]["labels_outside_the_list"] == int(np.sum(PEOPLE["city"] == "Ulm"))


@pytest.mark.parametrize(
    ("extra", "law", "membership"),
    [
        ("--mechanism laplace", "laplace", False),
        ("--mechanism laplace-joint --delta 0", "laplace", False),
        ("--mechanism laplace-split", "laplace", False),
        ("--mechanism published-analyze-gauss --delta 1e-3", "gaussian", True),
        ("--components 0.9", "gaussian", True),
    ],
)
def test_other_mechanisms_and_a_share_of_the_variance(extra, law, membership, people, bounds, tmp_path, capsys):
    facts, out = released(people, bounds, tmp_path, capsys, extra)
    assert facts["noise"]["law"] == law
    assert ("highest" in facts["internal"]["membership"]) is membership
    assert out.exists()


def test_adding_or_removing_hides_the_number_of_rows(people, tmp_path, capsys):
    hidden = tmp_path / "hidden.toml"
    hidden.write_text('neighbours = "add-or-remove"\nn = 250\n' + BOUNDS)
    facts, _ = released(people, hidden, tmp_path, capsys)
    assert facts["people_public"] == 250
    assert facts["guarantee"]["neighbours"] == "add-or-remove-one"


def with_a_gap(path, line):
    """The same table, the age of one row missing."""
    lines = path.read_text().splitlines()
    cells = lines[line].split(",")
    cells[1] = ""
    lines[line] = ",".join(cells)
    path.write_text("\n".join(lines) + "\n")


def test_a_gap_in_one_row_changes_nothing_that_is_public(people, bounds, tmp_path, capsys):
    """Neighbours by replacing a row: a full one, and one with an empty cell."""

    def public():
        facts, out = released(people, bounds, tmp_path, capsys, "--missing drop")
        import skops.io as sio

        model = sio.load(out)
        out.unlink()  # a file in the way would be remarked on
        left_out = facts.pop("internal")["rows_left_out"]
        facts.pop("written")
        facts.pop("artefact")  # of a noised file: another at every draw
        return facts, model.recipe_, model[-1].n_samples_, left_out

    *full, none = public()
    with_a_gap(people, 7)
    *gap, one = public()
    with_a_gap(people, 8)  # the only other row of the same person
    *gone, two = public()
    assert full == gap == gone
    assert full[2] == N // 2
    assert (none, one, two) == (0, 1, 2)


def test_rows_with_gaps_are_counted_in_words_and_with_their_person(people, bounds, tmp_path, capsys):
    with_a_gap(people, 7)
    with_a_gap(people, 8)  # both rows of p3
    people.write_text(people.read_text() + "p3,50,60,170,Ulm\n")
    out = tmp_path / "c.skops"
    options = [*GOOD.split(), "--missing", "drop", "--bounds", str(bounds), "--out", str(out)]
    assert run(["pca", str(people), *options]) == 0
    assert "2 rows with a missing or unreadable value add nothing" in said(capsys)
    facts, _ = released(people, bounds, tmp_path, capsys, "--missing drop")
    assert facts["internal"]["most_rows_of_a_person"] == 3  # whatever the gaps are replaced by
    alone = ["--epsilon", "1", "--exclude", "id", "--bounds", str(bounds), "--out", str(out)]
    assert run(["pca", str(people), *alone]) == 0
    assert f"2 rows with a missing or unreadable value count among the {N + 1} as the public centre" in said(capsys)


def said(capsys):
    return " ".join(capsys.readouterr().out.split())


def test_where_n_is_declared_a_row_with_a_gap_adds_nothing(people, tmp_path, capsys):
    hidden = tmp_path / "hidden.toml"
    hidden.write_text('neighbours = "add-or-remove"\nn = 250\n' + BOUNDS)
    with_a_gap(people, 7)
    facts, _ = released(people, hidden, tmp_path, capsys, "--missing drop")
    assert (facts["people_public"], facts["internal"]["rows_left_out"]) == (250, 1)


@pytest.mark.parametrize("centre", [[0.5, 1.0], [-3.0, 9.0]], ids=["inside the bounds", "outside"])
@pytest.mark.parametrize("norm", [None, 1.2])
def test_a_full_row_beside_an_incomplete_one_moves_no_more_than_the_stated_sensitivity(centre, norm):
    """Corners and random rows against what stands for a gap. A row of zeros would not do: 0 may lie outside."""
    from dosimeter.models.component_rows import ComponentRows
    from dosimeter.pca.bounds import Bounds
    from dosimeter.pca.sensitivity import sensitivity
    from dosimeter.tables.bounds_file import TableBounds
    from dosimeter.tables.column_encoding import NumberColumn
    from dosimeter.tables.encoding import TableEncoding

    held = Bounds([0.0, 0.0], [1.0, 2.0], norm, centre)
    box = held.over(2)
    full = np.vstack([[[0, 0], [0, 2], [1, 0], [1, 2]], np.random.default_rng(0).uniform(-1, 3, (500, 2))])
    encoding = TableEncoding((NumberColumn("a"), NumberColumn("b")))
    rows = ComponentRows(full, encoding, held, TableBounds({}), None, 0, incomplete=1)
    filled, person = rows.for_release("replace-one")
    assert person is None
    assert len(filled) == len(full) + 1
    Z = box.clip(filled).rows
    lower = np.tril_indices(2)
    moved = np.array([(np.outer(z, z) - np.outer(Z[-1], Z[-1]))[lower] for z in Z])
    most = sensitivity(box, "replace-one")
    assert (np.abs(moved) <= most.entries[lower] * (1 + 1e-12)).all()
    assert np.abs(moved).sum(axis=1).max() <= most.l1 * (1 + 1e-12)
    assert np.linalg.norm(moved, axis=1).max() <= most.l2 * (1 + 1e-12)
    zeros = np.array([np.outer(z, z)[lower] for z in Z])
    if centre[0] < 0 and norm is None:
        assert (np.abs(zeros) > most.entries[lower] * (1 + 1e-9)).any()


# What one person writes into their cells, or makes of their line; the id is theirs and stays.
LINES = {
    "a word": "p3,abc,60,170,Ulm",
    "infinity": "p3,inf,60,170,Ulm",
    "beyond float64": "p3,1e400,60,170,Ulm",
    "a far number": "p3,1e300,60,170,Ulm",
    "a gap": "p3,,60,170,Ulm",
    "too few cells": "p3,50",
    "too many cells": "p3,50,60,170,Ulm,7",
    "an open quote": 'p3,50,60,170,"Ulm',
    "a quote within": 'p3,5"0,60,170,Ulm',
    "an unknown label": "p3,50,60,170,Atlantis",
    "a whole number beyond 2^53": "p3,123456789012345678901,60,170,Ulm",
}


def handed_over(people, bounds, tmp_path, capsys, options):
    """All that is not internal: exit code, words on stderr, facts, and what stands in the file beside noise."""
    import skops.io as sio

    out = tmp_path / "c.skops"
    out.unlink(missing_ok=True)
    line = f"--epsilon 1 --components 2 --json - -q {options}".split()
    code = run(["pca", str(people), *line, "--bounds", str(bounds), "--out", str(out)])
    shown = capsys.readouterr()
    facts = json.loads(shown.out)
    for name in ("internal", "artefact", "written"):
        facts.pop(name)
    model = sio.load(out)
    made = model[-1]
    return code, shown.err, facts, model.recipe_, made.n_samples_, made.components_.shape, str(model[0])


@pytest.mark.parametrize(
    "options",
    [
        "--person id",
        "--exclude id",
        "--person id --neighbours add-or-remove",
        "--exclude id --neighbours add-or-remove --mean-share 0",
    ],
)
def test_whatever_one_person_writes_nothing_that_is_public_changes(options, people, tmp_path, capsys):
    hidden = tmp_path / "hidden.toml"
    hidden.write_text(("n = 250\n" if "add-or-remove" in options else "") + BOUNDS)
    base = people.read_text().splitlines()
    assert base[8].startswith("p3,")
    expected = handed_over(people, hidden, tmp_path, capsys, options)
    assert expected[:2] == (0, "")
    for name, line in LINES.items():
        people.write_text("\n".join([*base[:8], line, *base[9:]]) + "\n")
        assert handed_over(people, hidden, tmp_path, capsys, options) == expected, name


def test_a_person_replaced_by_one_with_other_rows_changes_nothing_that_is_public(people, bounds, tmp_path, capsys):
    base = people.read_text().splitlines()
    expected = handed_over(people, bounds, tmp_path, capsys, "--person id")
    rest = [line for line in base if not line.startswith("p3,")]
    for mine in (["new,50,60,170,Ulm"], ["new,99,140,130,Rome"] * 9, ["p3,,,,"], ["p3"] * 4):
        people.write_text("\n".join([*rest, *mine]) + "\n")
        assert handed_over(people, bounds, tmp_path, capsys, "--person id") == expected


def test_one_row_each_and_nothing_else_makes_rows_and_people_the_same_release(people, bounds, tmp_path, capsys):
    base = people.read_text().splitlines()
    alone = [line.replace(line.split(",")[0], f"q{i}", 1) for i, line in enumerate(base[1:])]
    people.write_text("\n".join([base[0], *alone]) + "\n")
    whole, rows = (handed_over(people, bounds, tmp_path, capsys, extra)[2] for extra in ("--person id", "--exclude id"))
    assert rows["noise"] == whole["noise"]
    assert whole["people_public"] == rows["rows_public"] == N
    assert (whole["guarantee"]["unit"], rows["guarantee"]["unit"]) == ("person", "row")


def test_with_bounds_a_gap_can_still_be_refused_and_the_cell_is_not_quoted(people, bounds, tmp_path, refused):
    base = people.read_text().splitlines()
    people.write_text("\n".join([*base[:8], "p3,abc,60,170,Ulm", *base[9:]]) + "\n")
    line = refused(
        ["pca", people, *GOOD.split(), "--bounds", bounds, "--missing", "refuse", "--out", tmp_path / "c.skops"]
    )
    assert "missing value (row 8, column age)" in line
    assert "abc" not in line


def test_a_tenth_of_the_budget_goes_to_the_mean_unless_told(people, bounds, tmp_path, capsys):
    import skops.io as sio

    facts, out = released(people, bounds, tmp_path, capsys)
    noise = facts["noise"]
    assert noise["mean_share"] == 0.1
    assert noise["mean_scale"] > 0
    assert noise["on"].endswith(", and of another scale on each entry of the mean")
    assert any("noisy mean, which took 10 %" in note for note in facts["assumptions"])
    first = sio.load(out)[-1].mean_
    again = sio.load(released(people, bounds, tmp_path, capsys)[1])[-1].mean_
    assert (first != again).any()
    none, out = released(people, bounds, tmp_path, capsys, "--mean-share 0")
    assert none["noise"]["mean_scale"] == 0
    np.testing.assert_allclose(sio.load(out)[-1].mean_, [0, -0.5, 0, 0, 0, 0])
    ratio = noise["scale_low"] / none["noise"]["scale_low"]
    assert ratio == pytest.approx(1 / np.sqrt(0.9), rel=1e-9)  # what the mean costs the matrix
    published = "--mechanism published-analyze-gauss --delta 1e-3"
    assert released(people, bounds, tmp_path, capsys, published)[0]["noise"]["mean_share"] == 0


def test_captured_variance_is_about_the_mean(tmp_path, capsys):
    """The mean far from the middle of the bounds, the variance across it: about the centre nothing of it is found."""
    spread = np.random.default_rng(0).normal(0, 0.05, 2000)
    table, limits = tmp_path / "far.csv", tmp_path / "far.toml"
    a, b = (0.8 + spread).round(6), (0.8 - spread).round(6)
    table.write_text(csv({"a": a, "b": b}))
    limits.write_text("[a]\nlower = -1\nupper = 1\n[b]\nlower = -1\nupper = 1\n")
    told = {}
    for share in (0, 0.5):
        options = f"--epsilon 1000 --components 1 --mean-share {share} --json - -q".split()
        assert run(["pca", str(table), *options, "--bounds", str(limits), "--out", str(tmp_path / "c.skops")]) == 0
        told[share] = json.loads(capsys.readouterr().out)["internal"]
    assert told[0]["captured"]["q"] < 0.01  # of the second moment about the centre it was nearly all
    assert told[0.5]["captured"]["q"] > 0.99
    C = np.cov(np.column_stack([a, b]).T)
    assert told[0]["captured"]["at_random"] == pytest.approx(np.trace(C) / 2 / np.linalg.eigvalsh(C)[-1], rel=1e-9)
    assert told[0]["variance"]["exact"][0] == pytest.approx(np.linalg.eigvalsh(C)[-1] / np.trace(C), rel=1e-9)


def test_mu_is_said_to_compare_a_row_with_its_absence(people, bounds, tmp_path, capsys):
    facts, out = released(people, bounds, tmp_path, capsys)
    assert facts["internal"]["membership"]["compares"] == "presence against absence, N fixed"
    assert run(["pca", str(people), *GOOD.split(), "--bounds", str(bounds), "--out", str(out)]) == 0
    shown = said(capsys)
    assert "μ: presence against absence, N fixed" in shown
    assert "It does not compare one person with another" in shown


def test_people_with_many_alike_rows_are_dealt_as_people_in_the_split_half_attack():
    """40 people of 25 rows and noise that drowns them: the alarm is as rare as it says.

    Dealt by rows it came in half of the tables (tests/pca/test_null_distribution.py shows both).
    """
    from scipy.stats import binom

    from dosimeter.models.component_attack import split_half_attack
    from dosimeter.models.component_rows import ComponentRows
    from dosimeter.pca.bounds import Bounds
    from dosimeter.pca.mechanisms import AnalyticGaussian
    from dosimeter.tables.bounds_file import TableBounds
    from dosimeter.tables.column_encoding import NumberColumn
    from dosimeter.tables.encoding import TableEncoding

    alarms, tables = 0, 100
    recipe = AnalyticGaussian(1e-4, 1e-9)
    encoding = TableEncoding(tuple(NumberColumn(name) for name in "abcd"))
    for seed in range(tables):
        draw = np.random.default_rng(seed)
        X = np.repeat(draw.uniform(-0.8, 0.8, (40, 4)), 25, axis=0) + draw.normal(0, 0.05, (1000, 4))
        ids = tuple(np.repeat(np.arange(40), 25).tolist())
        rows = ComponentRows(X, encoding, Bounds(-1.0, 1.0), TableBounds({}), ids, 0)
        alarms += split_half_attack(rows, recipe, 2).after.beats_chance
    low, high = binom.ppf(1e-10, tables, 0.05), binom.isf(1e-10, tables, 0.05)
    assert low <= alarms <= high


def test_a_published_scale_that_does_not_hold_ends_with_exit_1_and_writes_nothing(people, bounds, tmp_path, capsys):
    out = tmp_path / "c.skops"
    options = "--epsilon 30 --delta 1e-3 --person id --mechanism published-analyze-gauss --components 2".split()
    assert run(["pca", str(people), *options, "--bounds", str(bounds), "--out", str(out)]) == 1
    assert "Not proved, nothing was released" in " ".join(capsys.readouterr().out.split())
    assert not out.exists()


def test_bounds_from_the_table_are_not_private_and_the_file_says_so(people, tmp_path, capsys):
    import skops.io as sio

    out = tmp_path / "c.skops"
    command = ["pca", str(people), *GOOD.split(), "--not-private", "--out", str(out)]
    assert run(command) == 0
    assert "Not private" in capsys.readouterr().out
    model = sio.load(out)
    assert model.recipe_["private"] is False
    assert any("not private" in note for note in model.recipe_["not_covered"])
    assert run([*command, "-q", "--json", "-"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["guarantee"]["standing"] == "unaccounted"
    assert facts["private"] is False


def test_the_split_half_attack_stands_beside_chance(people, bounds, tmp_path, capsys):
    facts, _ = released(people, bounds, tmp_path, capsys, "--attack")
    told = facts["attack"]
    assert told["members"] == told["strangers"] == N // 2
    assert told["simulation"] is True
    for key in ("before", "after"):
        one = told[key]
        assert one["low"] <= one["figure"] <= one["high"]
        assert one["null_at_k"][0] < 0.5 < one["null_at_k"][1]
        assert one["null_95"] > 0.5


def test_an_attack_on_few_rows_and_many_columns_is_seen_before_the_noise_and_not_after(tmp_path, capsys):
    wide = {f"x{j}": rng.uniform(0, 1, 60).round(4) for j in range(25)}
    table, limits = tmp_path / "wide.csv", tmp_path / "wide.toml"
    table.write_text(csv(wide))
    limits.write_text("".join(f"[{name}]\nlower = 0\nupper = 1\n" for name in wide))
    options = "--epsilon 0.5 --components 20 --attack --json - -q".split()
    assert run(["pca", str(table), *options, "--bounds", str(limits), "--out", str(tmp_path / "c.skops")]) == 0
    told = json.loads(capsys.readouterr().out)["attack"]
    assert told["before"]["figure"] > 0.9
    assert told["before"]["p_value"] < 0.02
    assert told["after"]["figure"] < 0.75


def test_the_demonstration_says_what_a_newcomer_needs(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(["pca"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    for text in (
        "1797 handwritten digits", "epsilon 1 and delta 1e-06", "replace-one", "random directions", "before the noise",
        "Do not publish",
    ):  # fmt: skip
        assert text in shown
    assert list(tmp_path.iterdir()) == []


def test_the_template_names_every_column_and_is_refused_until_it_is_filled(people, tmp_path, capsys, refused):
    assert run(["pca", str(people), "--template", "--person", "id"]) == 0
    text = capsys.readouterr().out
    assert [line for line in text.splitlines() if line.startswith("[")] == ["[age]", "[weight]", "[height]", "[city]"]
    people.write_text(people.read_text().replace("Ulm", "", 1))  # a missing value does not matter to names
    assert run(["pca", str(people), "--template", "--person", "id"]) == 0
    assert capsys.readouterr().out == text
    people.write_text(csv(PEOPLE))
    blank = tmp_path / "blank.toml"
    blank.write_text(text)
    line = refused(["pca", people, *GOOD.split(), "--bounds", blank, "--out", tmp_path / "c.skops"])
    assert "fill in" in line


WRONG_BOUNDS = {
    "not toml": "age = [",
    "empty": "",
    "unknown column": BOUNDS + "[wait]\nlower = 0\nupper = 1\n",
    "unknown category": BOUNDS.replace("[city]", "[town]"),
    "missing column": BOUNDS.replace("[age]\nlower = 18\nupper = 100\n", ""),
    "lower above upper": BOUNDS.replace("upper = 100", "upper = 10"),
    "lower equal to upper": BOUNDS.replace("upper = 100", "upper = 18"),
    "text for a number": BOUNDS.replace("lower = 18", 'lower = "18"'),
    "true for a number": BOUNDS.replace("lower = 18", "lower = true"),
    "a date for a number": BOUNDS.replace("lower = 18", "lower = 2020-01-01"),
    "nan": BOUNDS.replace("lower = 18", "lower = nan"),
    "infinity": BOUNDS.replace("upper = 100", "upper = inf"),
    "an integer beyond float64": BOUNDS.replace("upper = 100", "upper = 1" + "0" * 400),
    "no upper": BOUNDS.replace("upper = 100", ""),
    "misspelt key": BOUNDS.replace("upper = 100", "uper = 100"),
    "misspelt setting": "row-nrom = 2\n" + BOUNDS,
    "zero row norm": "row-norm = 0\n" + BOUNDS,
    "fractional n": "n = 2.5\n" + BOUNDS,
    "unknown relation": 'neighbours = "swap"\n' + BOUNDS,
    "add or remove without n": 'neighbours = "add-or-remove"\n' + BOUNDS,
    "own units as text": 'own-units = "yes"\n' + BOUNDS,
    "levels and bounds": BOUNDS.replace("levels", "lower = 0\nlevels"),
    "levels as text": BOUNDS.replace('["Bonn", "Graz", "Ulm"]', '"Bonn"'),
    "a level twice": BOUNDS.replace('"Graz"', '"Bonn"'),
    "numbers for a text column": BOUNDS.split("[city]")[0] + "[city]\nlower = 0\nupper = 1\n",
    "the person": BOUNDS + '[id]\nlevels = ["a"]\n',
    "far fewer rows declared": 'neighbours = "add-or-remove"\nn = 20\n' + BOUNDS,
}


@pytest.mark.parametrize("far", ["1e200", "1e307"])
def test_own_units_beyond_all_squares_are_refused_without_a_warning(far, people, tmp_path, refused):
    wide = tmp_path / "wide.toml"
    wide.write_text("own-units = true\n" + BOUNDS.replace("lower = 18", f"lower = -{far}").replace("100", far))
    line = refused(["pca", people, *GOOD.split(), "--bounds", wide, "--out", tmp_path / "c.skops"])
    assert "state the columns in another unit" in line


@pytest.mark.parametrize("case", list(WRONG_BOUNDS))
def test_a_wrong_bounds_file_is_one_line_and_nothing_is_written(case, people, tmp_path, refused):
    wrong = tmp_path / "wrong.toml"
    wrong.write_text(WRONG_BOUNDS[case])
    refused(["pca", people, *GOOD.split(), "--bounds", wrong, "--out", tmp_path / "c.skops"])


OPTIONS = {
    "no epsilon": "--bounds B --out O",
    "zero epsilon": "--epsilon 0 --bounds B --out O",
    "an epsilon that protects nobody": "--epsilon 1e9 --mechanism laplace --bounds B --out O",
    "an epsilon that finds nothing": "--epsilon 1e-10 --delta 1e-30 --bounds B --out O",
    "a delta beyond all digits": "--epsilon 1 --delta 1e-300 --bounds B --out O",
    "a delta that allows nearly all": "--epsilon 1 --delta 0.999 --bounds B --out O",
    "nan epsilon": "--epsilon nan --bounds B --out O",
    "text epsilon": "--epsilon much --bounds B --out O",
    "delta of one": "--epsilon 1 --delta 1 --bounds B --out O",
    "negative delta": "--epsilon 1 --delta -1 --bounds B --out O",
    "gauss without delta": "--epsilon 1 --delta 0 --bounds B --out O",
    "no bounds": "--epsilon 1 --out O",
    "bounds and not private": "--epsilon 1 --bounds B --not-private --out O",
    "no such bounds": "--epsilon 1 --bounds nowhere.toml --out O",
    "no out": "--epsilon 1 --bounds B",
    "another kind of out": "--epsilon 1 --bounds B --out c.pkl",
    "out in no folder": "--epsilon 1 --bounds B --out nowhere/c.skops",
    "zero components": "--epsilon 1 --bounds B --out O --components 0",
    "too many components": "--epsilon 1 --bounds B --out O --components 7",
    "a share above one": "--epsilon 1 --bounds B --out O --components 1.5",
    "components in words": "--epsilon 1 --bounds B --out O --components few",
    "unknown mechanism": "--epsilon 1 --bounds B --out O --mechanism analyse-gauss",
    "unknown relation": "--epsilon 1 --bounds B --out O --neighbours swap",
    "published for another relation": "--epsilon 1 --bounds B --out O --mechanism published-laplace-scalar "
    "--neighbours add-or-remove",
    "unknown drop": "--epsilon 1 --bounds B --out O --exclude nothing",
    "unknown missing": "--epsilon 1 --bounds B --out O --missing guess",
    "wrong delimiter": "--epsilon 1 --bounds B --out O --delimiter ;",
    "a mean that takes all": "--epsilon 1 --bounds B --out O --mean-share 1",
    "less than no mean": "--epsilon 1 --bounds B --out O --mean-share -0.1",
    "a mean that is nan": "--epsilon 1 --bounds B --out O --mean-share nan",
    "published without a mean": "--epsilon 1 --bounds B --out O --mechanism published-laplace-scalar --mean-share 0.1",
    "a number as nominal": "--epsilon 1 --bounds B --out O --categorical age",
    "misspelt option": "--epsilonn 1 --bounds B --out O",
    "json over out": "--epsilon 1 --bounds B --out O --json O",
    "out over bounds": "--epsilon 1 --bounds B.skops --out B.skops",
}


@pytest.mark.parametrize("case", list(OPTIONS))
def test_a_wrong_option_is_one_line_and_nothing_is_written(case, people, bounds, tmp_path, refused):
    places = {"B": bounds, "O": tmp_path / "c.skops", "B.skops": tmp_path / "b.skops"}
    places["B.skops"].write_text(BOUNDS)
    refused(["pca", people, "--person", "id", *(places.get(word, word) for word in OPTIONS[case].split())])


def test_without_a_table_its_options_are_refused(bounds, refused):
    for options in (
        ["--bounds", bounds],
        ["--not-private"],
        ["--template"],
        ["--epsilon", "-1"],
        ["--components", "65"],
    ):
        refused(["pca", *options])


def test_the_refusal_without_bounds_says_how_to_write_them(people, tmp_path, refused):
    line = refused(["pca", people, "--epsilon", "1", "--person", "id", "--out", tmp_path / "c.skops"])
    for words in ("lower = 18", "--template", "--bounds FILE", "--not-private"):
        assert words in line


def test_columns_that_cannot_vary_and_fewer_rows_than_columns_are_handled(tmp_path, capsys):
    table, limits = tmp_path / "few.csv", tmp_path / "few.toml"
    table.write_text(csv({**{f"x{j}": [0.1, 0.9, 0.5] for j in range(5)}, "flat": [1, 1, 1]}))
    names = [*(f"x{j}" for j in range(5)), "flat"]
    limits.write_text("".join(f"[{name}]\nlower = 0\nupper = 1\n" for name in names))
    out = tmp_path / "c.skops"
    assert run(["pca", str(table), "--epsilon", "1", "--bounds", str(limits), "--out", str(out), "-q"]) == 0
    assert out.exists()
    assert run(["pca", str(table), "--epsilon", "1", "--bounds", str(limits), "--out", str(out), "-q", "--attack"]) == 2
    assert "too few" in capsys.readouterr().err
