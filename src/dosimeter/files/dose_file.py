"""The dose file: what a noised artefact costs whom, as JSON, so that it can be booked later. Internal, 0600.

It names its artefact by SHA-256 and its draw by a token made when the noise was drawn, so that neither can be booked
twice under two names. A file that is not exactly of this form is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import numpy as np

from dosimeter.core.accounts import NOTIONS, Booking, PersonDoses, SharedEventDose, parts_of, text_of
from dosimeter.core.dose import Dose, EventDose
from dosimeter.core.dp_events import event_of, is_number, plain_of
from dosimeter.core.errors import Refusal
from dosimeter.core.notion import Standing
from dosimeter.core.release import Recipe
from dosimeter.files.atomic import AnyPath, write_text
from dosimeter.files.file_checks import cannot, regular_file
from dosimeter.files.strict_json import parse

SCHEMA = "dosimeter.dose/1"
_LIMIT = 256 * 2**20
_REMEDY = "give the file that --dose wrote"


@dataclass(frozen=True)
class DoseFile:
    """Everything a booking needs but the artefact's bytes and a name.

    >>> file = DoseFile("fix", Recipe("weights", "Gaussian(sigma=0.5)"), sha256(b"model").hexdigest(), (), "00" * 16)
    >>> file.fits(b"model"), file.fits(b"another")
    (True, False)
    """

    verb: str
    recipe: Recipe
    artefact: str
    """SHA-256 of the artefact's bytes, in hex."""
    doses: tuple[PersonDoses, ...]
    draw: str = field(repr=False)
    """16 random bytes in hex, made when the noise was drawn."""

    def fits(self, artefact: bytes) -> bool:
        """Whether these bytes are the artefact that was measured."""
        return sha256(artefact).hexdigest() == self.artefact

    def booking(self, name: str, artefact: bytes, *, note: str = "", to: str = "", override: str = "") -> Booking:
        """The booking of these bytes under a name; refused where they are not the measured ones."""
        if not self.fits(artefact):
            raise Refusal("the dose file is of another artefact (their SHA-256 differ): give the two that were written")
        return Booking(name, self.recipe, artefact, self.doses, bytes.fromhex(self.draw), note, to, override)


def write_doses(path: AnyPath, file: DoseFile, *, inputs: Sequence[AnyPath] = ()) -> None:
    """The file as JSON, whole or not at all. Doses that could not be booked are refused here already."""
    parts_of(file.doses)
    recipe = file.recipe
    whole = {
        "schema": SCHEMA,
        "verb": file.verb,
        "recipe": {
            "kind": recipe.kind,
            "noise": recipe.noise,
            "settings": dict(recipe.settings),
            "uncovered": list(recipe.uncovered),
            "simulation": recipe.simulation,
        },
        "artefact": file.artefact,
        "draw": file.draw,
        "doses": [_plain(dose) for dose in file.doses],
    }
    try:
        text = json.dumps(whole, allow_nan=False)
    except ValueError:
        raise Refusal("a dose file holds finite numbers only") from None
    write_text(path, text + "\n", inputs=inputs)


def read_doses(path: AnyPath, *, limit: int = _LIMIT) -> DoseFile:
    """The file that `write_doses` wrote; anything else is refused in one line."""
    file, source = regular_file(path, limit)
    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise source.refusal("not a dose file (not UTF-8)", _REMEDY) from None
    except OSError as error:
        raise cannot(error, source, "read") from None
    try:
        return _file(parse(text))
    except RecursionError:
        raise source.refusal("not a dose file (nested too deep)", _REMEDY) from None
    except Refusal as error:
        raise source.refusal(str(error), _REMEDY) from None
    except ValueError:
        raise source.refusal("not a dose file (not JSON)", _REMEDY) from None


def _plain(dose: PersonDoses) -> dict[str, Any]:
    if isinstance(dose, SharedEventDose):
        of = dose.dose
        return {
            "account": "eps",
            "unit": of.unit,
            "adjacency": of.adjacency,
            "standing": of.standing.value,
            "ids": [text_of(i) for i in dose.ids],
            "event": plain_of(of.event),
        }
    key = next((key for key, notion in NOTIONS.items() if notion.name == dose.notion.name), None)
    if key is None:
        raise Refusal(f"the ledger has no account for {dose.notion.name}")
    return {
        "account": key,
        "unit": dose.unit,
        "measured_in": dose.measured_in,
        "standing": dose.standing.value,
        "uncovered": list(dose.uncovered),
        "ids": [text_of(i) for i in dose.ids],
        "values": dose.values.tolist(),
    }


def _keys(given: Any, what: str, wanted: set[str]) -> Mapping[str, Any]:
    if not isinstance(given, dict):
        raise Refusal(f"its {what} is not an object")
    if set(given) != wanted:
        odd = sorted(map(str, set(given) ^ wanted))[0]
        raise Refusal(f"its {what} has or lacks the key {odd[:40]!r}")
    return given


def _text(given: Any, what: str, most: int = 2000) -> str:
    if not isinstance(given, str) or len(given) > most:
        raise Refusal(f"its {what} is not a text of at most {most} characters")
    return given


def _texts(given: Any, what: str) -> tuple[str, ...]:
    if not isinstance(given, list):
        raise Refusal(f"its {what} is not a list")
    return tuple(_text(one, what) for one in given)


def _file(given: Any) -> DoseFile:
    whole = _keys(given, "top", {"schema", "verb", "recipe", "artefact", "draw", "doses"})
    if whole["schema"] != SCHEMA:
        raise Refusal("not a dose file, or of another version")
    if not re.fullmatch(r"[0-9a-f]{64}", _text(whole["artefact"], "artefact")):
        raise Refusal("its artefact is not a SHA-256 in hex")
    if not re.fullmatch(r"(?:[0-9a-f]{2}){16}", _text(whole["draw"], "draw")):
        raise Refusal("its draw is not a token of 16 bytes in hex")
    if not isinstance(whole["doses"], list):
        raise Refusal("its doses are not a list")
    doses = tuple(_dose(one) for one in whole["doses"])
    parts_of(doses)
    verb = _text(whole["verb"], "verb", 40)
    return DoseFile(verb, _recipe(whole["recipe"]), whole["artefact"], doses, whole["draw"])


def _recipe(given: Any) -> Recipe:
    plain = _keys(given, "recipe", {"kind", "noise", "settings", "uncovered", "simulation"})
    settings = plain["settings"]
    if not isinstance(settings, dict) or len(settings) > 200:
        raise Refusal("the settings of its recipe are not an object of at most 200 keys")
    for value in settings.values():
        if isinstance(value, str):
            _text(value, "settings")
    if type(plain["simulation"]) is not bool:
        raise Refusal("simulation is true or false")
    kind, noise = _text(plain["kind"], "kind"), _text(plain["noise"], "noise")
    return Recipe(kind, noise, settings, _texts(plain["uncovered"], "uncovered"), plain["simulation"])


def _dose(given: Any) -> PersonDoses:
    if not isinstance(given, dict):
        raise Refusal("a dose of it is not an object")
    if given.get("account") == "eps":
        return _events(_keys(given, "dose", {"account", "unit", "adjacency", "standing", "ids", "event"}))
    plain = _keys(given, "dose", {"account", "unit", "measured_in", "standing", "uncovered", "ids", "values"})
    key = plain["account"]
    if not isinstance(key, str) or key not in NOTIONS:
        raise Refusal("a dose of it is of no notion that is known")
    ids, values = _texts(plain["ids"], "ids"), plain["values"]
    numbers = isinstance(values, list) and all(map(is_number, values))
    if not numbers:
        raise Refusal("the values of a dose are not finite numbers")
    return Dose(
        NOTIONS[key],
        _text(plain["unit"], "unit"),
        ids,
        np.array(values, dtype=np.float64),
        _standing(plain["standing"]),
        _text(plain["measured_in"], "measured_in", 60),
        _texts(plain["uncovered"], "uncovered"),
    )


def _events(plain: Mapping[str, Any]) -> SharedEventDose:
    unit, adjacency = _text(plain["unit"], "unit"), _text(plain["adjacency"], "adjacency")
    dose = EventDose(event_of(plain["event"]), unit, adjacency, _standing(plain["standing"]))
    return SharedEventDose(_texts(plain["ids"], "ids"), dose)


def _standing(given: Any) -> Standing:
    try:
        return Standing(given)
    except ValueError:
        raise Refusal(f"{str(given)[:40]!r} is no standing") from None
