"""The dose file: read back as it was written; anything else is refused in one line."""

from __future__ import annotations

import copy
import json
import os
from hashlib import sha256

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, SelfComposedDpEvent

from dosimeter.core.accounts import SharedEventDose, parts_of
from dosimeter.core.dose import Dose, EventDose
from dosimeter.core.errors import Refusal
from dosimeter.core.notion import FISHER, LEAKAGE, Standing
from dosimeter.core.release import Recipe
from dosimeter.files.dose_file import DoseFile, read_doses, write_doses

MODEL = b"the model"
FILE = DoseFile(
    "fix",
    Recipe("weights", "Gaussian(sigma=0.5)", {"l2": 0.01, "loss": "squared", "rows": 7, "shaped": False}, ("a scale",)),
    sha256(MODEL).hexdigest(),
    (
        Dose.of_figures(FISHER, "person", [17, "ann"], [0.1, 1 / 3], measured_in="standard deviations"),
        Dose.of_figures(LEAKAGE, "person", ["ann"], [0.7], standing=Standing.UPPER_BOUND, not_covered=("tuned",)),
        SharedEventDose(
            ("17", "ann"), EventDose(SelfComposedDpEvent(GaussianDpEvent(2.5), 3), "person", "replace-one")
        ),
    ),
    "0f" * 16,
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "dose.json"


def test_a_dose_file_is_read_back_as_it_was_written(path):
    write_doses(path, FILE)
    back = read_doses(path)
    assert (back.verb, back.recipe, back.artefact, back.noise_fingerprint) == (
        FILE.verb,
        FILE.recipe,
        FILE.artefact,
        FILE.noise_fingerprint,
    )
    assert parts_of(back.doses) == parts_of(FILE.doses)
    assert back.doses[0].amounts.tolist() == FILE.doses[0].amounts.tolist()
    assert back.doses[2].dose == FILE.doses[2].dose


@pytest.mark.skipif(os.name == "nt", reason="POSIX modes")
def test_only_the_owner_can_read_the_file(path):
    write_doses(path, FILE)
    assert path.stat().st_mode & 0o777 == 0o600


def test_only_its_own_artefact_can_be_booked(path):
    write_doses(path, FILE)
    booking = read_doses(path).booking("may", MODEL, to="Hospital B", note="n", override="o")
    assert (booking.name, booking.artefact, booking.to) == ("may", MODEL, "Hospital B")
    assert booking.noise_fingerprint == bytes.fromhex(FILE.noise_fingerprint)
    with pytest.raises(Refusal, match="another artefact"):
        FILE.booking("may", MODEL + b"!")


def test_a_simulation_can_be_written_but_not_booked(path):
    simulated = DoseFile(
        "fix", Recipe("weights", "G", simulation=True), FILE.artefact, FILE.doses, FILE.noise_fingerprint
    )
    write_doses(path, simulated)
    with pytest.raises(Refusal, match="simulated noise"):
        read_doses(path).booking("may", MODEL)


def test_doses_that_could_not_be_booked_are_not_written(path):
    for bad in (
        Dose(FISHER, "person", ("a",), np.array([np.inf])),
        Dose.of_figures(FISHER, "example", ["a"], [0.1]),
        Dose.of_figures(FISHER, "person", [], []),
    ):
        with pytest.raises(Refusal):
            write_doses(path, DoseFile("fix", FILE.recipe, FILE.artefact, (bad,), FILE.noise_fingerprint))
    assert not path.exists()


def _set(*keys_and_value):
    *keys, last, value = keys_and_value

    def change(part):
        for key in keys:
            part = part[key]
        part[last] = value

    return change


def _drop(*keys):
    def change(part):
        for key in keys[:-1]:
            part = part[key]
        del part[keys[-1]]

    return change


CHANGES = {
    "another schema": _set("schema", "dosimeter.dose/2"),
    "an unknown key": _set("extra", 1),
    "a missing key": _drop("draw"),
    "no verb": _set("verb", None),
    "a long verb": _set("verb", "x" * 41),
    "a short digest": _set("artefact", "ff"),
    "a digest in capitals": _set("artefact", "F" * 64),
    "a short draw": _set("draw", "0f"),
    "an empty draw": _set("draw", ""),
    "no list of doses": _set("doses", {}),
    "no doses": _set("doses", []),
    "a dose that is none": _set("doses", 0, 7),
    "an unknown notion": _set("doses", 0, "account", "auc"),
    "a notion that is a list": _set("doses", 0, "account", ["fil"]),
    "a unit that is no person": _set("doses", 0, "unit", "example"),
    "no unit": _set("doses", 0, "unit", "planet"),
    "an unknown standing": _set("doses", 0, "standing", "certain"),
    "fewer values": _set("doses", 0, "values", [0.1]),
    "a negative value": _set("doses", 0, "values", [0.1, -0.1]),
    "a subnormal value": _set("doses", 0, "values", [0.1, 5e-324]),
    "a value too large": _set("doses", 0, "values", [0.1, 1e300]),
    "a text for a value": _set("doses", 0, "values", [0.1, "0.1"]),
    "a bool for a value": _set("doses", 0, "values", [0.1, True]),
    "a huge integer": _set("doses", 0, "values", [0.1, 10**400]),
    "values that are no list": _set("doses", 0, "values", 0.1),
    "ids twice": _set("doses", 0, "ids", ["ann", "ann"]),
    "ids that are numbers": _set("doses", 0, "ids", [1, 2]),
    "an empty id": _set("doses", 0, "ids", ["", "ann"]),
    "an endless id": _set("doses", 0, "ids", ["x" * 5000, "ann"]),
    "a scale with a bar": _set("doses", 0, "measured_in", "a|b"),
    "uncovered that is a text": _set("doses", 0, "uncovered", "all"),
    "an event with a module": _set("doses", 2, "event", {"class": "system", "module_name": "os"}),
    "an event without noise": _set("doses", 2, "event", {"class": "GaussianDpEvent", "noise_multiplier": 0}),
    "an unknown adjacency": _set("doses", 2, "adjacency", "near"),
    "an unknown key in a dose": _set("doses", 0, "values2", []),
    "a recipe that is a text": _set("recipe", "none"),
    "a recipe without kind": _drop("recipe", "kind"),
    "settings that are a list": _set("recipe", "settings", []),
    "settings with a list": _set("recipe", "settings", {"a": []}),
    "endless settings": _set("recipe", "settings", {str(k): k for k in range(500)}),
    "simulation as text": _set("recipe", "simulation", "no"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_file_is_refused_in_one_line(path, change):
    write_doses(path, FILE)
    content = copy.deepcopy(json.loads(path.read_text()))
    CHANGES[change](content)
    path.write_text(json.dumps(content))
    with pytest.raises(Refusal) as caught:
        read_doses(path)
    assert str(caught.value).startswith(str(path)[:20])
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe{",
        b"not json",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"null",
        b"[]",
        b'{"schema": "dosimeter.dose/1"}',
        b'{"schema": NaN}',
        b'{"schema": Infinity}',
        b'{"schema": "a", "schema": "b"}',
        b"\x80\x04\x95",
    ],
)
def test_another_file_is_refused_in_one_line(path, content):
    path.write_bytes(content)
    with pytest.raises(Refusal) as caught:
        read_doses(path)
    assert "\n" not in str(caught.value)


def test_a_huge_file_is_refused_before_it_is_read(path):
    write_doses(path, FILE)
    with pytest.raises(Refusal, match="above the limit"):
        read_doses(path, limit=100)


def test_a_duplicate_key_is_refused(path):
    write_doses(path, FILE)
    text = path.read_text()
    path.write_text(text.replace('"verb": "fix"', '"verb": "fix", "verb": "pca"'))
    with pytest.raises(Refusal, match="duplicate key"):
        read_doses(path)
