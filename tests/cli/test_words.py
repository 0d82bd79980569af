"""What the command line says: the target, the unit of the noise, categories, narrow terminals, settings, variables."""

from __future__ import annotations

import csv as csv_module
import json

import numpy as np
import pytest

from dosimeter.cli.main import run

from .test_bad_input import AGE, BMI, PEOPLE, csv


@pytest.fixture
def people(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    path = tmp_path / "people.csv"
    path.write_text(csv(PEOPLE))
    return path


def said(capsys, *arguments, code=0):
    """What a command prints, on one line."""
    assert run([str(a) for a in arguments]) == code
    return " ".join(capsys.readouterr().out.split())


def refused(capsys, *arguments):
    """What a command complains of."""
    assert run([str(a) for a in arguments]) == 2
    return capsys.readouterr().err


def test_the_target_is_named_among_the_unknowns_and_can_be_left_out(people, capsys):
    arguments = ["measure", people, "--target", "dose", "--person", "id", "--scale", "0.5"]
    shown = said(capsys, *arguments)
    assert "the target is counted among a row's unknowns" in shown
    assert "dose (target)" in shown
    shown = said(capsys, *arguments, "--known-target")
    assert "the target is taken as known: it is not counted among a row's unknowns" in shown
    assert "dose (target)" not in shown


def test_a_class_is_guessed_as_a_number(tmp_path, capsys):
    rng = np.random.default_rng(3)
    path = tmp_path / "t.csv"
    x = rng.normal(size=80)
    path.write_text(csv({"x": x, "z": rng.normal(size=80), "ill": (x + rng.normal(size=80) > 0).astype(int)}))
    shown = said(capsys, "measure", path, "--target", "ill", "--scale", "0.1", "--l2", "1")
    assert "guesses without bias misses the target “ill” of row" in shown
    assert "the class is guessed as a number, 1 from one class to the next" in shown


def test_the_words_say_which_weights_get_the_noise(people, tmp_path, capsys):
    from dosimeter import glm

    shown = said(capsys, "measure", people, "--target", "dose", "--person", "id", "--scale", "1")
    assert "Gaussian(sigma=1.0), on each released weight of the standardised columns" in shown
    fit = glm.fit(np.column_stack([AGE, BMI]), PEOPLE["dose"], glm.Squared(), 0.1, intercept=True)
    given = {"loss": "squared", "l2": 0.1, "intercept": fit.w[2], "coef": {"age": fit.w[0], "bmi": fit.w[1]}}
    model = tmp_path / "w.json"
    model.write_text(json.dumps(given))
    shown = said(capsys, "measure", people, "--target", "dose", "--model", model, "--scale", "1")
    assert "Gaussian(sigma=1.0), on each released weight of the model as it stands" in shown
    for option in (["--l2", "0.1"], ["--loss", "squared"]):
        line = refused(capsys, "measure", people, "--target", "dose", "--model", model, *option)
        assert f"{option[0]} is for a model fitted here" in line


def test_no_category_has_a_deviation_in_words(people, capsys):
    shown = said(capsys, "measure", people, "--target", "dose", "--person", "id", "--scale", "1")
    assert "category: η of a step" in shown
    assert "ill ±" not in shown
    assert "can be pinned to" not in shown


def test_a_release_that_adds_little_says_so(people, capsys):
    plain = ("--exclude", "sex", "--exclude", "ill")
    shown = said(capsys, "measure", people, "--target", "dose", "--person", "id", "--scale", "1000", *plain)
    assert "The release adds little to what everything else in the table says about" in shown
    assert "±inf" not in shown


def test_doses_are_written_under_the_rows_of_the_file_and_their_unit(tmp_path, capsys):
    path, out = tmp_path / "holes.csv", tmp_path / "doses.csv"
    bmi = [str(v) for v in BMI]
    bmi[3] = ""
    path.write_text(csv({"age": AGE, "bmi": bmi, "dose": PEOPLE["dose"]}))
    arguments = [
        "measure",
        path,
        "--target",
        "dose",
        "--missing",
        "drop",
        "--scale",
        "1",
        "--doses-out",
        out,
        "--json",
        "-",
    ]
    for unit, column in (("sd", "eta_in_standard_deviations"), ("raw", "eta_in_own_units")):
        out.unlink(missing_ok=True)
        assert run([*map(str, arguments), "-q", "--unit", unit]) == 0
        facts = json.loads(capsys.readouterr().out)
        with out.open(newline="") as handle:
            rows = list(csv_module.DictReader(handle))
        assert [int(row["row"]) for row in rows] == [k for k in range(1, 41) if k != 4]
        top = max(rows, key=lambda row: float(row[column]))
        assert int(top["row"]) == facts["dose"]["highest_row"]


def test_a_group_asked_for_is_always_shown(people, capsys):
    shown = said(capsys, "measure", people, "--target", "dose", "--exclude", "id", "--scale", "1", "--group", "sex")
    assert "Requested groups" in shown
    assert "sex = f" in shown
    assert "sex = m" in shown


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("[measure]\nmax-doze = 5\n", "did you mean max-dose?"),
        ("[measure]\nmax_doze = 5\n", "did you mean max-dose?"),
        ("[mesure]\nmax-dose = 5\n", "did you mean measure?"),
        ("[measure]\nversion = true\n", "has no option version"),
    ],
)
def test_a_setting_that_no_verb_knows_is_refused(content, told, people, monkeypatch, capsys):
    (people.parent / "dosimeter.toml").write_text(content)
    monkeypatch.chdir(people.parent)
    assert told in refused(capsys, "measure", people, "--target", "dose", "--person", "id")


@pytest.mark.parametrize(
    "variable",
    [
        "DOSIMETER_VERSION",
        "DOSIMETER_HELP",
        "DOSIMETER_MEASURE_HELP",
        "DOSIMETER_SHOW_COMPLETION",
        "DOSIMETER_INSTALL_COMPLETION",
    ],
)
def test_no_variable_turns_a_gate_into_a_pass(variable, people, monkeypatch, capsys):
    monkeypatch.setenv(variable, "1")
    said(capsys, "measure", people, "--target", "dose", "--person", "id", "--max-dose", "1", code=1)


def test_help_names_the_settings_file_and_not_every_variable(capsys):
    shown = said(capsys, "--help")
    assert "dosimeter.toml" in shown
    shown = said(capsys, "measure", "--help")
    assert "env var" not in shown
    assert "eq." not in shown


def test_options_that_contradict_each_other_are_refused_in_options(people, capsys):
    for options, told in (
        (
            ["--target", "dose", "--person", "id", "--exclude", "id"],
            "--person id: the column was left out by --exclude id",
        ),
        (["--target", "dose", "--exclude", "dose"], "--target dose: the column was left out by --exclude dose"),
        (["--target", "dose", "--person", "dose"], "--target dose is also the --person"),
        (["--target", "dose", "--tied", "sex"], "pass --person as well"),
        (["--target", "dose", "--person", "id", "--loss", "hinge"], "--loss hinge: use auto, squared"),
        (["--target", "dose", "--person", "id", "--tied", "agge"], "did you mean age?"),
    ):
        assert told in refused(capsys, "measure", people, *options)
    line = refused(capsys, "measure", people, "--target", "dose", "--noise", "pink")
    assert "gaussian" in line
    assert "exponential" not in line


def test_a_decimal_comma_in_a_file_is_called_by_its_name(tmp_path, capsys):
    path = tmp_path / "german.csv"
    rows = [f"{a};{b}".replace(".", ",") for a, b in zip(AGE, BMI, strict=True)]
    path.write_text("\n".join(["age;bmi", *rows]) + "\n")
    assert "decimal comma" in refused(capsys, "measure", path, "--target", "bmi", "--delimiter", ";")


def test_columns_with_decimal_commas_are_named_together(tmp_path, capsys):
    path = tmp_path / "german.csv"
    rows = [f"{a / 7:.2f};{b:.2f};{int(a) % 2}".replace(".", ",") for a, b in zip(AGE, BMI, strict=True)]
    path.write_text("\n".join(["dose;bmi;ill", *rows]) + "\n")
    line = refused(capsys, "measure", path, "--target", "ill", "--delimiter", ";")
    assert "column dose holds numbers with a decimal comma, as do bmi: pass --decimal ," in line


@pytest.mark.parametrize(
    ("option", "text", "advice"), [("--scale", "0,05", "a number such as 0.5"), ("--max-dose", "one", "a number such")]
)
def test_a_text_where_a_number_belongs_is_named_with_its_option(people, capsys, option, text, advice):
    line = refused(capsys, "measure", people, "--target", "dose", option, text)
    assert f"{option} {text}: give {advice}" in line


def test_true_is_no_number_in_the_settings_file(people, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dosimeter.toml").write_text("[measure]\nmax-dose = true\n")
    assert "max-dose = true: give a value" in refused(capsys, "measure", people, "--target", "dose")


@pytest.mark.parametrize("width", [30, 45, 69, 70, 120])
def test_words_are_whole_and_lines_have_no_blanks_at_their_end(width, people, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", str(width))
    arguments = ["measure", str(people), "--target", "dose", "--person", "id", "--scale", "0.01", "--max-dose", "1e9"]
    arguments += ["--exclude", "sex", "--exclude", "ill"]  # a number, whose sentence is the longest
    assert run(arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line != line.rstrip()] == []
    assert max(map(len, lines)) <= width
    words = " ".join(lines).split()
    for word in ("attacker", "everything", "without", "Verdict", "standardised", "(Standard"):
        assert word in words


@pytest.mark.parametrize("verb", ["measure", "fix"])
def test_a_row_is_counted_as_in_the_file_where_rows_were_left_out(verb, tmp_path, capsys):
    ward, age = ["a" if k // 2 % 2 else "b" for k in range(40)], [str(value) for value in AGE]
    ward[25] = "elsewhere"  # of the thirteenth person's two rows, the second
    age[3] = age[10] = ""
    path = tmp_path / "t.csv"
    path.write_text(csv({"id": PEOPLE["id"], "age": age, "ward": ward, "dose": PEOPLE["dose"]}))
    words = [verb, path, "--target", "dose", "--person", "id", "--tied", "ward", "--missing", "drop", "--max-dose", "9"]
    line = refused(capsys, *words, *(["--out", tmp_path / "m.skops"] if verb == "fix" else []))
    assert "(row 26 counted from 1)" in line


@pytest.mark.parametrize("scale", ["-1", "0", "nan", "inf"])
def test_no_scale_is_asked_for_by_leaving_it_out(scale, people, capsys):
    line = refused(capsys, "measure", people, "--target", "dose", "--person", "id", "--scale", scale)
    assert "give a finite number above 0, or leave --scale out for an exact release" in line
    assert "no_noise" not in line


def test_a_misspelt_target_is_named_before_any_gap_and_gaps_are_counted(tmp_path, capsys):
    path, bmi = tmp_path / "t.csv", [str(value) for value in BMI]
    bmi[3] = bmi[7] = bmi[11] = ""
    path.write_text(csv({"age": AGE, "bmi": bmi, "dose": PEOPLE["dose"]}))
    assert "there is no column doze: did you mean dose?" in refused(capsys, "measure", path, "--target", "doze")
    line = refused(capsys, "measure", path, "--target", "dose")
    assert "missing value (row 4, column bmi)" in line
    assert "(--missing drop: 3 of 40 rows)" in line


def test_a_spreadsheet_is_saved_and_not_renamed(tmp_path, capsys):
    path = tmp_path / "people.xlsx"
    for content in (csv(PEOPLE).encode(), b"PK\x03\x04 and more"):
        path.write_bytes(content)
        assert "save the table as .csv" in refused(capsys, "measure", path, "--target", "dose")


def test_a_model_that_was_noised_already_is_told_apart_from_one_badly_fitted(people, tmp_path, capsys):
    model = tmp_path / "m.skops"
    words = [people, "--target", "dose", "--exclude", "id"]
    said(capsys, "fix", *words, "--max-dose", "1", "--out", model)
    assert run([str(word) for word in ["measure", *words, "--model", model, "--scale", "1"]]) == 3
    assert "weights that already carry noise" in capsys.readouterr().err


def test_keys_that_a_file_of_coefficients_lacks_are_named(people, tmp_path, capsys):
    model = tmp_path / "w.json"
    model.write_text('{"coef": {"age": 1.0}, "weights": 3}')
    line = refused(capsys, "measure", people, "--target", "dose", "--model", model)
    assert "it lacks intercept, l2, loss and weights does not belong there: write {" in line


def test_classes_that_may_be_slips_are_remarked(tmp_path, capsys):
    ill = ["yes" if value else "no" for value in PEOPLE["ill"]]
    table = {"id": PEOPLE["id"], "age": AGE, "bmi": BMI, "ill": ill}
    path = tmp_path / "t.csv"
    words = ["measure", path, "--target", "ill", "--person", "id", "--scale", "1"]
    path.write_text(csv(table))
    shown = said(capsys, *words)
    assert "held by one" not in shown
    assert "capitals" not in shown
    ill[4], ill[9], ill[20] = "maybe", "Yes", "Yes"
    path.write_text(csv(table))
    shown = said(capsys, *words)
    assert "held by one person: ill = maybe; if it is a typing error" in shown
    assert "the classes of ill Yes, yes differ in capitals or blanks only" in shown


def test_the_limit_that_was_asked_for_is_among_the_noises_needed(people, capsys):
    words = ["measure", people, "--target", "dose", "--person", "id", "--max-dose", "5", "--json", "-", "-q"]
    assert run([str(word) for word in words]) == 1
    needed = {one["highest"]: one["scale"] for one in json.loads(capsys.readouterr().out)["noise_needed"]}
    assert set(needed) == {0.3, 1.0, 5.0}  # 0.1 is below what the fitted scaler leaves
    assert run([str(word) for word in [*words, "--scale", needed[5.0] * (1 + 1e-9)]]) == 0
    capsys.readouterr()
    assert run([str(word) for word in [*words, "--scale", needed[5.0] * 0.99]]) == 1


@pytest.mark.parametrize("verb", ["demo", "pate", "pca", pytest.param("federate", marks=pytest.mark.slow)])
def test_commands_to_copy_stand_on_one_line(verb, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.chdir(tmp_path)
    assert run([verb]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if "  dosimeter " in line]
    ends = {"demo": ("--max-dose 1", ".skops"), "pate": ("labels.csv",), "pca": ("# fill it in", ".skops")}
    ends["federate"] = (".safetensors", "--rounds 54")
    assert [line.endswith(end) for line, end in zip(lines, ends[verb], strict=True)] == [True] * len(lines)
    assert verb != "demo" or all("--person" in line for line in lines)


def test_what_is_not_covered_is_said_once(people, tmp_path, capsys):
    out, dose = tmp_path / "m.skops", tmp_path / "d.json"
    words = ["fix", people, "--target", "dose", "--person", "id", "--max-dose", "3", "--out", out, "--dose-file", dose]
    shown = said(capsys, *words)
    assert "held fixed" in shown
    assert "held fixed: not covered" not in shown
    assert f"Written {out} (not booked: no ledger is configured) {dose}".replace(" ", "") in shown.replace(" ", "")
    shown = said(capsys, "measure", people, "--target", "dose", "--person", "id")
    assert "held fixed: not covered" not in shown


def test_a_second_draw_over_the_first_is_remarked(people, tmp_path, capsys):
    words = ["fix", people, "--target", "dose", "--person", "id", "--max-dose", "3", "--out", tmp_path / "m.skops"]
    assert "this replaced" not in said(capsys, *words)
    assert "this replaced the m.skops that was there" in said(capsys, *words)


def test_usage_names_the_verb_and_the_nearest_option(people, capsys):
    line = refused(capsys, "measure", people, "--target", "dose", "--persons", "id")
    assert "no such option: --persons. Did you mean --person?" in line
    assert line.rstrip().endswith("See dosimeter measure --help.")
    assert "See dosimeter attack inversion --help." in refused(capsys, "attack", "inversion", people)
    assert "See dosimeter --help." in refused(capsys, "mesure")


def test_one_value_in_the_settings_stands_for_a_list_of_one(people, monkeypatch, capsys):
    (people.parent / "dosimeter.toml").write_text('[measure]\nexclude = "age"\n[attack.membership]\nexclude = "id"\n')
    monkeypatch.chdir(people.parent)
    words = ["measure", people, "--target", "dose", "--person", "id", "--scale", "1", "--json", "-", "-q"]
    assert run([str(word) for word in words]) == 0
    assert "age" not in [one["column"] for one in json.loads(capsys.readouterr().out)["columns"]]
    said(capsys, "attack", "membership", people, "--target", "dose", "--scale", "1", "--trials", "5")
    (people.parent / "dosimeter.toml").write_text('[ledger]\nurl = ""\n')
    assert "[ledger] url is empty" in refused(capsys, *words)


def test_messages_name_what_this_verb_can_take(tmp_path, capsys):
    path, other = tmp_path / "t.csv", tmp_path / "other.csv"
    path.write_text(csv({"name": [f"p{k}" for k in range(40)], "age": AGE, "bmi": BMI, "dose": PEOPLE["dose"]}))
    shown = refused(capsys, "attack", "membership", path, "--target", "dose", "--scale", "1")
    assert "looks like an identifier; pass --exclude name" in shown
    other.write_text(path.read_text())
    shown = refused(capsys, "measure", path, "--target", "dose", "--scale", "1", "--model", other)
    assert "--model is a table, not a model" in shown
    path.write_text("age,empty,dose\n" + "".join(f"{age},,{k % 7}\n" for k, age in enumerate(AGE)))
    shown = refused(capsys, "measure", path, "--target", "dose", "--scale", "1")
    assert "every value is missing (column empty): leave the column out (--exclude empty)" in shown


@pytest.mark.parametrize("attack", ["inversion --column age", "membership"])
def test_an_attack_suggests_columns_and_warns_of_identifiers(attack, tmp_path, capsys):
    path = tmp_path / "t.csv"
    path.write_text(csv({"patient_id": range(100, 140), "age": AGE, "bmi": BMI, "dose": PEOPLE["dose"]}))
    words = ["attack", *attack.split(), path, "--target", "dose", "--scale", "1", "--trials", "5"]
    assert "patient_id looks like an identifier: pass --exclude patient_id" in said(capsys, *words)
    assert "identifier" not in said(capsys, *words, "--exclude", "patient_id")
    if "inversion" in attack:
        words[words.index("age")] = "agee"
        assert "no column agee to guess: did you mean age?" in refused(capsys, *words)


@pytest.mark.parametrize("verb", ["measure", "fix"])
def test_help_ends_with_what_a_good_dose_is(verb, capsys):
    from dosimeter.cli.options import GOOD_DOSES
    from dosimeter.core.cramer_rao import accuracy_of_two

    assert run([verb, "--help"]) == 0
    shown = capsys.readouterr().out.rstrip().splitlines()
    assert max(map(len, shown)) <= 80
    assert "At most 1 protects" in shown[-2 - len(GOOD_DOSES)]
    for eta, line in zip(GOOD_DOSES, shown[-len(GOOD_DOSES) :], strict=True):
        assert line.split() == ["η", "=", f"{eta:g}", f"{100 * accuracy_of_two(eta):.0f}", "times", "in", "100"]


@pytest.mark.parametrize("verb", ["measure", "fix"])
def test_help_begins_with_what_a_newcomer_needs(verb, capsys):
    assert run([verb, "--help"]) == 0
    shown = capsys.readouterr().out
    start = shown.split("Start here:")[1].split("\n\n")[0]
    assert all(flag in start for flag in ("--target", "--person", "--max-dose"))
    assert shown.index("Start here:") < shown.index("Table:") < shown.index("Output:")
