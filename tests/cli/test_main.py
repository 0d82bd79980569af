"""The entry point itself."""

from __future__ import annotations

import signal

import pytest

from dosimeter.cli.main import run

from .test_bad_input import PEOPLE, csv


@pytest.fixture
def people(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text(csv(PEOPLE))
    return path


@pytest.mark.skipif(not hasattr(signal, "SIGPIPE"), reason="this platform has no SIGPIPE")
def test_a_command_run_from_python_leaves_its_signals_alone() -> None:
    """With SIGPIPE at its default, a worker that died would end the whole program without a word."""
    before = signal.getsignal(signal.SIGPIPE)
    run(["--version"])
    assert signal.getsignal(signal.SIGPIPE) is before


@pytest.mark.parametrize(
    ("variable", "meant"),
    [
        ("DOSIMETER_MEASURE_MAX_DOS", "DOSIMETER_MEASURE_MAX_DOSE"),
        ("DOSIMETER_FIX_MAXDOSE", "DOSIMETER_FIX_MAX_DOSE"),
        ("DOSIMETER_MESURE_MAX_DOSE", "DOSIMETER_MEASURE_MAX_DOSE"),
        ("DOSIMETER_ATTACK_INVERSION_SCAL", "DOSIMETER_ATTACK_INVERSION_SCALE"),
        ("DOSIMETER_LEDGR", "DOSIMETER_LEDGER"),
        ("DOSIMETER_LEDGER_KEY", "DOSIMETER_LEDGER_KEYS"),
    ],
)
def test_a_misspelt_variable_is_refused_whatever_verb_it_is_for(variable, meant, people, monkeypatch, refused) -> None:
    monkeypatch.setenv(variable, "0.1")
    line = refused(["measure", people, "--target", "dose", "--person", "id"])
    assert f"the variable {variable} names no option: did you mean {meant}?" in line


def test_a_variable_of_a_verb_that_is_like_none_of_its_options_is_refused(people, monkeypatch, refused) -> None:
    monkeypatch.setenv("DOSIMETER_PCA_QQ", "1")
    assert "DOSIMETER_PCA_QQ names no option" in refused(["measure", people, "--target", "dose", "--person", "id"])


def test_variables_that_are_read_and_those_of_others_pass(people, monkeypatch, tmp_path) -> None:
    for variable in ("DOSIMETER_DATA", "DOSIMETER_LEDGER", "DOSIMETER_LEDGER_KEYS", "DOSIMETER_IMAGE_TAG"):
        monkeypatch.setenv(variable, str(tmp_path))
    monkeypatch.setenv("DOSIMETER_TRACEBACK", "1")
    monkeypatch.setenv("DOSIMETER_ATTACK_INVERSION_SCALE", "1")
    monkeypatch.setenv("DOSIMETER_MEASURE_MAX_DOSE", "1e-9")
    assert run(["measure", str(people), "--target", "dose", "--person", "id", "--scale", "1", "-q"]) == 1


def test_ctrl_c_is_answered_in_one_line(people, monkeypatch, capsys) -> None:
    from dosimeter.cli import output

    def pressed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(output, "show", pressed)
    assert run(["measure", str(people), "--target", "dose", "--person", "id", "-q"]) == 130
    (line,) = capsys.readouterr().err.splitlines()
    assert line == "dosimeter: error: stopped; nothing half-written was left behind"


def test_ctrl_c_before_the_verb_begins_is_answered_too(people, monkeypatch, capsys) -> None:
    from dosimeter.cli import main

    def pressed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(main, "settings_file", pressed)
    assert run(["measure", str(people), "--target", "dose", "--person", "id", "-q"]) == 130
    assert "stopped; nothing half-written" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (["attack", "people.csv"], "No such command 'people.csv': use inversion, membership."),
        (["federate", "people.csv"], "or name a table with --table."),
        (["pca", "people.csv", "--dimensions", "2"], "no such option: --dimensions. See dosimeter pca --help."),
        (["mesure"], "No such command 'mesure'. Did you mean 'measure'?"),
        (["measure", "people.csv", "--hepl"], "no such option: --hepl. Did you mean --help?"),
        (["measure", "people.csv", "--html", "x"], "dosimeter report RESULT --out PAGE.html."),
        (["report", "result.json", "--html", "x"], "no such option: --html. Use --out."),
    ],
    ids=" ".join,
)
def test_a_mistyped_command_or_option_is_answered_with_what_there_is(line, message, refused) -> None:
    assert message in refused(line)


@pytest.mark.parametrize("verb", ["check", "measure", "pca", "report", "release", "scan", "reproduce"])
def test_the_usage_line_names_arguments_in_capitals_and_without_braces(verb, capsys) -> None:
    assert run([verb, "--help"]) == 0
    usage = capsys.readouterr().out.splitlines()[0]
    arguments = usage.removeprefix(f"Usage: dosimeter {verb} ")
    assert arguments == arguments.upper() != "[OPTIONS]"
    assert not set("{}") & set(arguments)
