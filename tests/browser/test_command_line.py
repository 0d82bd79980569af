"""Hostile tables through the real command line, up to the page in a browser: headers, levels, ids, notes, files."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from dosimeter.cli.demo import PAGES
from dosimeter.cli.main import run
from dosimeter.reports.html import to_html
from dosimeter.reports.markup import shown
from dosimeter.results.read import read_result

from .opened import opened
from .payloads import as_file_names, in_a_file

NAMES = in_a_file()
FILES = as_file_names()
PERSON, TARGET, WARD, *NUMBERS = NAMES
LEVELS = NUMBERS[:6]
PEOPLE = 2 * len(NAMES)


def write(path, columns):
    """A .csv of these columns, name -> cells."""
    with path.open("w", newline="", encoding="utf-8") as file:
        sheet = csv.writer(file)
        sheet.writerow(columns)
        sheet.writerows(zip(*columns.values(), strict=True))
    return path


def numbers(n, d, seed):
    """d columns under payloads' names, and two classes called by payloads that follow from them."""
    values = np.random.default_rng(seed).normal(size=(n, d)).round(3)
    classes = [NAMES[10 + int(row[:3].sum() > 0)] for row in values]
    return dict(zip(NUMBERS, values.T, strict=False)), classes


def result_of(arguments, tmp_path, codes=(0,)):
    """The result that a verb wrote, read as `report` reads it."""
    where = tmp_path / f"{FILES[1]}.json"
    assert run([str(a) for a in (*arguments, "--json", where, "-q")]) in codes
    return read_result(where)


def quiet_in_both(result):
    """The internal page, after both were seen to be silent."""
    outside = opened(to_html(result, "external"))
    assert outside.quiet, outside
    inside = opened(to_html(result, "internal"))
    assert inside.quiet, inside
    assert inside.drawn == inside.charts > 0
    return inside


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_a_measured_table_of_payloads_is_only_text(tmp_path):
    columns, _ = numbers(2 * PEOPLE, len(NUMBERS), 5)
    ids = [f"{NAMES[k % len(NAMES)]} {k % PEOPLE}" for k in range(2 * PEOPLE)]
    wards = [LEVELS[k % PEOPLE % len(LEVELS)] for k in range(2 * PEOPLE)]
    y = sum(columns[name] for name in NUMBERS[:5]) + np.random.default_rng(6).normal(size=2 * PEOPLE).round(3)
    table = write(tmp_path / f"{FILES[0]}.csv", {PERSON: ids, TARGET: y, WARD: wards, **columns})
    arguments = ["measure", table, "--target", TARGET, "--person", PERSON, "--group", WARD, "--scale", 1, "--show-ids"]
    result = result_of([*arguments, "--max-dose", 1e-9], tmp_path, codes=(1,))
    # Names reach the result as they were written, or this would be about escapes made on the way and not about a page.
    assert {column.column for column in result.columns} >= set(NUMBERS)
    said = set(quiet_in_both(result).texts)
    assert [name for name in NUMBERS if shown(name) not in said] == []
    assert [level for level in LEVELS if f"{shown(WARD)} = {shown(level)}" not in said] == []
    ids_said = {text.rsplit(" ", 1)[0] for text in said}
    assert len([name for name in NAMES if shown(name) in ids_said]) >= 25  # fifty people, two of them a payload


def test_a_released_and_booked_table_of_payloads_is_only_text(tmp_path):
    columns, _ = numbers(200, 8, 6)
    ids = [f"{NAMES[k % len(NAMES)]} {k}" for k in range(200)]
    y = columns[NUMBERS[0]] + np.random.default_rng(7).normal(size=200).round(3)
    table = write(tmp_path / f"{FILES[0]}.csv", {PERSON: ids, TARGET: y, **columns})
    assert run(["ledger", "init", "--ledger", "book.db", "-q"]) == 0
    booked = ["--ledger", "book.db", "--name", "v 3", "--note", NAMES[4], "--to", NAMES[5]]
    arguments = ["fix", table, "--target", TARGET, "--person", PERSON, "--max-dose", 5, "--out", f"{FILES[2]}.skops"]
    result = result_of([*arguments, *booked], tmp_path)
    assert result.booked.name == "v 3"  # a release cannot be called by a payload: the ledger refuses it
    assert shown(result.booked.head) in quiet_in_both(result).texts


def test_labels_of_payloads_are_only_text(tmp_path):
    for name, n in ((FILES[3], 400), (FILES[4], 20)):
        columns, classes = numbers(n, 8, n)
        write(tmp_path / f"{name}.csv", {**columns, TARGET: classes})
    arguments = ["pate", f"{FILES[3]}.csv", "--target", TARGET, "--public", f"{FILES[4]}.csv", "--teachers", 20]
    quiet_in_both(result_of([*arguments, "--budget", "10 nats", "--out", f"{FILES[5]}.csv"], tmp_path))


def test_components_of_payloads_are_only_text(tmp_path):
    table = write(tmp_path / f"{FILES[6]}.csv", numbers(200, 10, 7)[0])
    arguments = ["pca", table, "--epsilon", 1, "--not-private", "--attack", "--out", f"{FILES[2]}.skops"]
    quiet_in_both(result_of(arguments, tmp_path))


def test_a_federation_of_payloads_is_only_text(tmp_path):
    columns, classes = numbers(400, 6, 8)
    clients = [NAMES[k % 80] for k in range(400)]
    table = write(tmp_path / f"{FILES[7]}.csv", {PERSON: clients, **columns, TARGET: classes})
    arguments = ["federate", "--table", table, "--target", TARGET, "--client", PERSON, "--epsilon", 8, "--rounds", 3]
    quiet_in_both(result_of([*arguments, "--out", f"{FILES[8]}.safetensors"], tmp_path))


def test_the_pages_of_the_demo_are_drawn_and_small(tmp_path):
    assert run(["demo", "--out", str(tmp_path), "-q"]) == 0
    inside, outside = ((tmp_path / name).read_bytes() for name in PAGES.values())
    seen = opened(inside, screenshot="demo-internal")
    assert seen.quiet, seen
    assert seen.drawn == seen.charts == 5
    assert seen.marks > 800  # histogram, groups, 50 people by 11 columns, the attack, the frontier
    assert opened(outside, screenshot="demo-external").quiet
    assert len(inside) < 3_000_000
