"""`--bounds` of `measure` and `fix`: preprocessing that no row moves."""

from __future__ import annotations

import json

import numpy as np
import pytest

from dosimeter.cli.main import run

from .test_bad_input import PEOPLE, csv

BOUNDS = """
[age]
lower = 0
upper = 120
[bmi]
lower = 10
upper = 60
[sex]
levels = ["f", "m", "x"]
[dose]
lower = -100
upper = 100
[ill]
levels = ["0", "1"]
"""


@pytest.fixture
def files(tmp_path):
    people, bounds = tmp_path / "people.csv", tmp_path / "bounds.toml"
    people.write_text(csv(PEOPLE))
    bounds.write_text(BOUNDS)
    return people, bounds


def test_measure_stands_exact_with_bounds(files, capsys):
    people, bounds = files
    options = f"--target dose --person id --scale 1 --bounds {bounds} --json - -q"
    assert run(["measure", str(people), *options.split()]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["standing"] == "exact"
    assert facts["not_covered"] == []
    assert any("taken as known without the table" in line for line in facts["assumptions"])
    assert str(bounds) not in facts["reproduce"]["command"]


@pytest.mark.parametrize("verb", ["measure", "fix"])
@pytest.mark.parametrize("line", ["{id},abc,{rest}", "{id},1e400,{rest}", "{id},inf,{rest}", "{id},50", "{id},,{rest}"])
def test_what_cannot_be_read_in_a_declared_column_is_a_gap_and_is_never_quoted(verb, line, files, tmp_path, capsys):
    people, bounds = files
    base = people.read_text().splitlines()
    assert base[0].split(",")[:2] == ["id", "age"]
    who, _, rest = base[5].split(",", 2)
    wrong = line.format(id=who, rest=rest)
    people.write_text("\n".join([*base[:5], wrong, *base[6:]]) + "\n")
    options = f"--target dose --person id --scale 1 --bounds {bounds} -q".split()
    options += ["--out", str(tmp_path / "m.skops"), "--even-if-useless"] if verb == "fix" else []
    assert run([verb, str(people), *options]) == 2
    shown = capsys.readouterr().err
    assert "missing value (row 5" in shown
    for cell in ("abc", "1e400", "inf"):
        assert cell not in shown
    assert run([verb, str(people), *options, "--missing", "drop"]) == 0


def test_fix_writes_a_model_that_tells_nothing_of_the_columns(files, tmp_path, capsys):
    """The fold is public: released weights times the half range are the noised ones, on the noise's own grid."""
    import skops.io as sio

    people, bounds = files
    out = tmp_path / "model.skops"
    options = f"--target ill --person id --scale 0.5 --bounds {bounds} --exclude dose --even-if-useless --json - -q "
    options += f"--out {out}"
    assert run(["fix", str(people), *options.split()]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["standing"] == "exact"
    model = sio.load(out, trusted=sio.get_untrusted_types(file=out))
    assert model[-1].classes_.tolist() == [0, 1]
    assert model[-1].coef_.shape == (1, 4)
    assert np.isfinite(model[-1].coef_).all()


@pytest.mark.parametrize(
    ("more", "change", "words"),
    [
        ("", ("[age]", "row-norm = 2\n[age]"), "row-norm"),
        ("", ("[sex]", "[sexx]"), "sexx"),
        ("--categorical age", ("", ""), "--categorical"),
        ("", ("[age]", "[id]\nlevels = ['a']\n[age]"), "[id] is the person column"),
        ("--loss logistic", ("", ""), "levels"),
    ],
)
def test_bounds_that_do_not_fit_the_table_or_the_options_are_refused(more, change, words, files, refused):
    people, bounds = files
    bounds.write_text(BOUNDS.replace(*change) if change[0] else BOUNDS)
    options = f"--target dose --person id --scale 1 --bounds {bounds} {more}"
    assert words in refused(["measure", people, *options.split()])


def test_a_given_model_has_its_own_preprocessing(files, tmp_path, refused):
    people, bounds = files
    model = tmp_path / "model.json"
    model.write_text("{}")
    assert "--bounds" in refused(["measure", people, "--target", "dose", "--model", model, "--bounds", bounds])


@pytest.mark.parametrize("verb", ["measure", "fix"])
@pytest.mark.parametrize("label", ["7351", "abc", "1e400", "-inf", "0.515"])
def test_a_label_outside_the_declared_classes_is_a_gap_and_is_never_quoted(verb, label, files, tmp_path, capsys):
    """With the row left out the figures are those of the table that never had it."""
    people, bounds = files
    base = people.read_text().splitlines()
    cells, at = base[5].split(","), base[0].split(",").index("ill")
    strange = ",".join([*cells[:at], label, *cells[at + 1 :]])
    options = f"--target ill --person id --scale 1 --bounds {bounds} --exclude dose --json - -q".split()
    out = tmp_path / "m.skops"
    options += ["--out", str(out), "--even-if-useless"] if verb == "fix" else []
    people.write_text("\n".join([*base[:5], *base[6:]]) + "\n")
    assert run([verb, str(people), *options]) == 0
    without = json.loads(capsys.readouterr().out)
    out.unlink(missing_ok=True)
    people.write_text("\n".join([*base[:5], strange, *base[6:]]) + "\n")
    assert run([verb, str(people), *options]) == 2
    told = capsys.readouterr()
    assert "not among the listed classes (row 5, column ill)" in told.err
    assert label not in told.err + told.out
    assert not out.exists()
    assert run([verb, str(people), *options, "--missing", "drop"]) == 0
    facts = json.loads(capsys.readouterr().out)
    if verb == "measure":
        assert facts["dropped_rows"] == 1
    else:
        assert "rows left out for a missing value or an undeclared class: 1" in facts["remarks"]
    for name in ("typical", "highest"):
        assert facts["dose"][name] == pytest.approx(without["dose"][name], rel=1e-9)


def test_a_list_of_classes_that_no_row_has_is_refused(files, refused):
    people, bounds = files
    bounds.write_text(BOUNDS.replace('["0", "1"]', '["no", "yes"]'))
    options = f"--target ill --person id --scale 1 --bounds {bounds} --exclude dose --missing drop"
    assert "no row has a listed class" in refused(["measure", people, *options.split()])
