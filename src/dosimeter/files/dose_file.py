"""The dose file: each person's dose from a noised artefact, as JSON, for booking later. Internal, mode 0600.

It names its artefact by SHA-256 and its noise by a token created when the noise was drawn, so that neither can be
booked under two names. A file that is not exactly of this form is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import numpy as np

from dosimeter.core.accounts import Booking, PersonDoses, SharedEventDose, parts_of, text_of
from dosimeter.core.dose import Dose, EventDose
from dosimeter.core.dp_events import event_from_dict, event_to_dict, is_number
from dosimeter.core.errors import Refusal
from dosimeter.core.face import option
from dosimeter.core.notion import DIFFERENTIAL_PRIVACY, NOTIONS, Standing, key_of
from dosimeter.core.release import Recipe
from dosimeter.files.atomic import AnyPath, write_text
from dosimeter.files.file_checks import os_error_refusal, regular_file
from dosimeter.files.strict_json import parse

SCHEMA = "dosimeter.dose/1"
_LIMIT = 256 * 2**20


@dataclass(frozen=True)
class DoseFile:
    """Everything that a booking needs except the artefact's bytes and a name.

    >>> file = DoseFile("fix", Recipe("weights", "Gaussian(sigma=0.5)"), sha256(b"model").hexdigest(), (), "00" * 16)
    >>> file.matches(b"model"), file.matches(b"another")
    (True, False)
    """

    verb: str
    recipe: Recipe
    artefact: str
    """SHA-256 of the artefact's bytes, in hex."""
    doses: tuple[PersonDoses, ...]
    noise_fingerprint: str = field(repr=False)
    """16 random bytes in hex, created when the noise was drawn."""

    def matches(self, artefact: bytes) -> bool:
        """Whether these bytes are the artefact that was measured."""
        return sha256(artefact).hexdigest() == self.artefact

    def booking(self, name: str, artefact: bytes, *, note: str = "", to: str = "", override: str = "") -> Booking:
        """The booking of these bytes under a name; refused if they are not the measured ones."""
        if not self.matches(artefact):
            raise Refusal(
                "the dose file belongs to another artefact (SHA-256 differs): use files that were written together"
            )
        return Booking(
            name, self.recipe, artefact, self.doses, bytes.fromhex(self.noise_fingerprint), note, to, override
        )


def write_doses(path: AnyPath, file: DoseFile, *, inputs: Sequence[AnyPath] = ()) -> None:
    """Write the file as JSON, atomically. Doses that could not be booked are refused here already."""
    parts_of(file.doses)
    recipe = file.recipe
    content = {
        "schema": SCHEMA,
        "verb": file.verb,
        "recipe": {
            "kind": recipe.kind,
            "noise": recipe.noise,
            "settings": dict(recipe.settings),
            "uncovered": list(recipe.not_covered),
            "simulation": recipe.simulation,
        },
        "artefact": file.artefact,
        "draw": file.noise_fingerprint,
        "doses": [_to_dict(dose) for dose in file.doses],
    }
    try:
        text = json.dumps(content, allow_nan=False)
    except ValueError:
        raise Refusal("a dose file holds finite numbers only") from None
    write_text(path, text + "\n", inputs=inputs)


def read_doses(path: AnyPath, *, limit: int = _LIMIT) -> DoseFile:
    """Read a file that `write_doses` wrote; anything else is refused."""
    file, source = regular_file(path, limit)
    remedy = f"use a file that {option('dose_file')} wrote"
    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise source.refusal("not a dose file (not UTF-8)", remedy) from None
    except OSError as error:
        raise os_error_refusal(error, source, "read") from None
    try:
        return _file(parse(text))
    except RecursionError:
        raise source.refusal("not a dose file (nested too deeply)", remedy) from None
    except Refusal as error:
        raise source.refusal(str(error), remedy) from None
    except ValueError:
        raise source.refusal("not a dose file (not JSON)", remedy) from None


def _to_dict(dose: PersonDoses) -> dict[str, Any]:
    if isinstance(dose, SharedEventDose):
        shared = dose.dose
        return {
            "account": key_of(DIFFERENTIAL_PRIVACY),
            "unit": shared.unit,
            "adjacency": shared.adjacency,
            "standing": shared.standing.value,
            "ids": [text_of(i) for i in dose.ids],
            "event": event_to_dict(shared.event),
        }
    return {
        "account": key_of(dose.notion),
        "unit": dose.unit,
        "measured_in": dose.measured_in,
        "standing": dose.standing.value,
        "uncovered": list(dose.not_covered),
        "ids": [text_of(i) for i in dose.ids],
        "values": dose.amounts.tolist(),
    }


def _object(value: Any, name: str, keys: set[str]) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise Refusal(f"its {name} is not an object")
    if set(value) != keys:
        first, problem = sorted((str(key), "unknown" if key in value else "missing") for key in set(value) ^ keys)[0]
        raise Refusal(f"its {name}: the key {first[:40]!r} is {problem}")
    return value


def _text(value: Any, name: str, most: int = 2000) -> str:
    if not isinstance(value, str) or len(value) > most:
        raise Refusal(f"its {name} is not a text of at most {most} characters")
    return value


def _texts(values: Any, name: str) -> tuple[str, ...]:
    if not isinstance(values, list):
        raise Refusal(f"its {name} is not a list")
    return tuple(_text(value, name) for value in values)


def _file(parsed: Any) -> DoseFile:
    content = _object(parsed, "content", {"schema", "verb", "recipe", "artefact", "draw", "doses"})
    if content["schema"] != SCHEMA:
        raise Refusal("not a dose file, or of another version")
    if not re.fullmatch(r"[0-9a-f]{64}", _text(content["artefact"], "artefact")):
        raise Refusal("its artefact is not a SHA-256 in hex")
    if not re.fullmatch(r"(?:[0-9a-f]{2}){16}", _text(content["draw"], "draw")):
        raise Refusal("its draw is not a token of 16 bytes in hex")
    if not isinstance(content["doses"], list):
        raise Refusal("its doses are not a list")
    doses = tuple(_dose(dose) for dose in content["doses"])
    parts_of(doses)
    verb = _text(content["verb"], "verb", 40)
    return DoseFile(verb, _recipe(content["recipe"]), content["artefact"], doses, content["draw"])


def _recipe(parsed: Any) -> Recipe:
    fields = _object(parsed, "recipe", {"kind", "noise", "settings", "uncovered", "simulation"})
    settings = fields["settings"]
    if not isinstance(settings, dict) or len(settings) > 200:
        raise Refusal("the settings of its recipe are not an object of at most 200 keys")
    for value in settings.values():
        if isinstance(value, str):
            _text(value, "settings")
    if type(fields["simulation"]) is not bool:
        raise Refusal("its simulation is not true or false")
    kind, noise = _text(fields["kind"], "kind"), _text(fields["noise"], "noise")
    return Recipe(kind, noise, settings, _texts(fields["uncovered"], "uncovered"), fields["simulation"])


def _dose(parsed: Any) -> PersonDoses:
    if not isinstance(parsed, dict):
        raise Refusal("one of its doses is not an object")
    key = parsed.get("account")
    if not isinstance(key, str) or key not in NOTIONS:
        raise Refusal("one of its doses has an unknown account")
    if NOTIONS[key].composes_events:
        return _events(_object(parsed, "dose", {"account", "unit", "adjacency", "standing", "ids", "event"}))
    fields = _object(parsed, "dose", {"account", "unit", "measured_in", "standing", "uncovered", "ids", "values"})
    ids, values = _texts(fields["ids"], "ids"), fields["values"]
    numbers = isinstance(values, list) and all(map(is_number, values))
    if not numbers:
        raise Refusal("the values of one of its doses are not finite numbers")
    return Dose(
        NOTIONS[key],
        _text(fields["unit"], "unit"),
        ids,
        np.array(values, dtype=np.float64),
        _standing(fields["standing"]),
        _text(fields["measured_in"], "measured_in", 60),
        _texts(fields["uncovered"], "uncovered"),
    )


def _events(fields: Mapping[str, Any]) -> SharedEventDose:
    unit, adjacency = _text(fields["unit"], "unit"), _text(fields["adjacency"], "adjacency")
    dose = EventDose(event_from_dict(fields["event"]), unit, adjacency, _standing(fields["standing"]))
    return SharedEventDose(_texts(fields["ids"], "ids"), dose)


def _standing(value: Any) -> Standing:
    try:
        return Standing(value)
    except ValueError:
        raise Refusal(f"{str(value)[:40]!r} is not a standing") from None
