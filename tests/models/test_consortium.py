"""A fit over three sites is the fit of the joint table, and doses at the sites are those of `measure` there."""

from __future__ import annotations

import json
import secrets
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dosimeter as dm
from dosimeter.core.noise import Gaussian
from dosimeter.engines.protocol.assembly import SiteFault, answers_question
from dosimeter.engines.protocol.message import read_message
from dosimeter.ledger import Ledger
from dosimeter.models.consortium_fit import fit_values
from tests.models.consortium import Consortium, cut, patients, schema_for

LOSSES = ("squared", "logistic", "poisson")


@pytest.mark.parametrize("loss", LOSSES)
def test_fit_and_doses_are_those_of_the_joint_table(loss: str, tmp_path: Path) -> None:
    rows, schema = patients(loss), schema_for(loss)
    consortium = Consortium(schema, cut(rows), tmp_path)
    fitted, totals, _, engine = consortium.fit()
    scale = consortium.scale(fitted, totals, engine)
    joint = dm.measure(
        rows,
        target="y",
        person="id",
        bounds=schema.bounds,
        noise=dm.Gaussian(scale),
        loss=loss,
        l2=0.01,
        scaler="total",
    )
    np.testing.assert_allclose(fitted.w, joint.fit.w, rtol=0, atol=1e-9)
    expected = {str(person): eta for person, eta in joint.persons.items()}
    measured: dict[str, float] = {}
    for desk in consortium.desks.values():
        measured |= desk.study.doses(fit_values(fitted, totals), desk._checked_table(), scale)
    assert measured.keys() == expected.keys()
    np.testing.assert_allclose([measured[p] for p in expected], list(expected.values()), rtol=1e-9)
    assert max(measured.values()) <= 1.0


def constant(part: dict[str, Any], value: float) -> dict[str, Any]:
    return {**part, "bmi": np.full(len(part["id"]), value)}


HARD: dict[str, Any] = {
    "a column that does not vary at one site": lambda p: [p[0], constant(p[1], 30.0), p[2]],
    "a column that does not vary at any site": lambda p: [constant(each, 30.1) for each in p],
    "a column that varies between sites only": lambda p: [constant(each, 30.0 + k) for k, each in enumerate(p)],
    "a level that one site has": lambda p: [
        {**each, "sex": np.where((each["sex"] == "x") & (k != 1), "f", each["sex"])} for k, each in enumerate(p)
    ],
    "a level that no site has": lambda p: [
        {**each, "sex": np.where(each["sex"] == "x", "f", each["sex"])} for each in p
    ],
    "a column in a millionth of its bounds": lambda p: [{**each, "bmi": 30 + 1e-6 * each["bmi"]} for each in p],
}


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("kind", HARD)
def test_fit_and_doses_of_a_hard_table_are_those_of_the_joint_table(kind: str, loss: str, tmp_path: Path) -> None:
    parts, schema = HARD[kind](cut(patients(loss))), schema_for(loss)
    consortium = Consortium(schema, parts, tmp_path)
    fitted, totals, _, _ = consortium.fit()
    rows = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    joint = dm.measure(rows, target="y", person="id", bounds=schema.bounds, noise=dm.Gaussian(0.5), loss=loss, l2=0.01)
    np.testing.assert_allclose(fitted.w, joint.fit.w, rtol=0, atol=1e-9)
    measured: dict[str, float] = {}
    for desk in consortium.desks.values():
        measured |= desk.study.doses(fit_values(fitted, totals), desk._checked_table(), 0.5)
    expected = {str(person): eta for person, eta in joint.persons.items()}
    np.testing.assert_allclose([measured[p] for p in expected], list(expected.values()), rtol=1e-9)


def test_a_patient_at_two_sites_has_at_each_the_dose_of_the_rows_there(tmp_path: Path) -> None:
    """As if the patient were two people of the joint table: nobody sees across sites that it is one."""
    parts, schema = cut(patients("logistic")), schema_for("logistic")
    parts[2]["id"] = [f"p{k - k % 3 % 2}" for k in range(len(parts[2]["id"]))]
    assert len(set(parts[0]["id"]) & set(parts[2]["id"])) > 20
    consortium = Consortium(schema, parts, tmp_path)
    fitted, totals, _, _ = consortium.fit()
    rows = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    rows["id"] = [f"{person} of {k}" for k, part in enumerate(parts, start=1) for person in part["id"]]
    joint = dm.measure(rows, target="y", person="id", bounds=schema.bounds, noise=dm.Gaussian(0.5), l2=0.01)
    expected = {str(person): eta for person, eta in joint.persons.items()}
    for k, desk in consortium.desks.items():
        doses = desk.study.doses(fit_values(fitted, totals), desk._checked_table(), 0.5)
        np.testing.assert_allclose(list(doses.values()), [expected[f"{person} of {k}"] for person in doses], rtol=1e-9)


def test_the_scale_is_that_of_fix_on_the_joint_table(tmp_path: Path) -> None:
    rows, schema = patients("logistic"), schema_for("logistic")
    consortium = Consortium(schema, cut(rows), tmp_path)
    fitted, totals, _, engine = consortium.fit()
    release = dm.fix(
        rows, target="y", person="id", bounds=schema.bounds, max_dose=1.0, loss="logistic", l2=0.01, noise_shape="none",
        even_if_useless=True,
    )  # fmt: skip
    assert release.recipe.noise == str(Gaussian(consortium.scale(fitted, totals, engine)))


def booked(consortium: Consortium, fitted: Any, totals: Any, scale: float) -> list[bool]:
    proposal = secrets.token_bytes(16)
    values = {**fit_values(fitted, totals), "proposal": proposal, "scale": scale, "chosen": True}
    within = consortium.assembly.ask("within limits", values)
    if not all(answer["within"] for answer in within.values()):
        return []
    recipe = json.dumps({"kind": "weights", "noise": str(Gaussian(scale)), "settings": {}, "not_covered": []})
    draw = {"proposal": proposal, "artefact": b"model", "recipe": recipe, "fingerprint": secrets.token_bytes(32)}
    first = consortium.assembly.ask("book", draw)
    again = consortium.assembly.ask("book", draw)
    other = consortium.assembly.ask("book", {**draw, "artefact": b"another draw"})
    assert first == again
    assert not any(answer["booked"] for answer in other.values())
    return [bool(answer["booked"]) for answer in first.values()]


def test_each_ledger_holds_exactly_its_own_patients_once(tmp_path: Path) -> None:
    rows = patients("logistic")
    consortium = Consortium(schema_for("logistic"), cut(rows), tmp_path)
    fitted, totals, _, engine = consortium.fit()
    assert booked(consortium, fitted, totals, consortium.scale(fitted, totals, engine)) == [True] * 3
    for path, part in zip(consortium.ledgers, cut(rows), strict=True):
        with Ledger.open(path) as ledger:
            (entry,) = ledger.releases()
            assert entry.body["parts"][0]["people"] == len(set(part["id"]))
            assert all(ledger.person(person).totals for person in set(part["id"]))


def test_a_site_over_its_limits_answers_no_and_books_nothing(tmp_path: Path) -> None:
    consortium = Consortium(schema_for("logistic"), cut(patients("logistic")), tmp_path, budget="fil=0.01")
    fitted, totals, _, engine = consortium.fit()
    assert booked(consortium, fitted, totals, consortium.scale(fitted, totals, engine)) == []
    with Ledger.open(consortium.ledgers[0]) as ledger:
        assert ledger.releases() == ()


@pytest.mark.parametrize("column", ["sex", "y"])
def test_an_unknown_level_is_said_at_the_site_and_not_to_the_coordinator(column: str, tmp_path: Path) -> None:
    parts = cut(patients("logistic"))
    parts[2] = {**parts[2], column: np.array(["CANARY-LEVEL", *parts[2][column][1:].tolist()])}
    consortium = Consortium(schema_for("logistic"), parts, tmp_path)
    with pytest.raises(SiteFault, match=r"^site 3 does not match the schema; its own terminal says where$"):
        consortium.fit()
    assert "row 1" in consortium.said[-1]
    assert column in consortium.said[-1]
    assert "CANARY" not in "".join(consortium.said)
    assert b"CANARY" not in b"".join(consortium.exchange.passed)


def test_no_id_and_no_cell_crosses(tmp_path: Path) -> None:
    rows = patients("logistic")
    ids = [f"CANARY{person}" for person in rows["id"]]
    consortium = Consortium(schema_for("logistic"), cut({**rows, "id": ids}), tmp_path)
    fitted, totals, _, engine = consortium.fit()
    booked(consortium, fitted, totals, consortium.scale(fitted, totals, engine))
    crossed = b"".join(consortium.exchange.passed)
    assert b"CANARY" not in crossed
    for column in ("age", "bmi"):
        centre, half = {"age": (59.0, 41.0), "bmi": (36.0, 24.0)}[column]
        for u in rows[column].tolist():
            for number in (u, (u - centre) / half):
                assert np.float64(number).tobytes() not in crossed


def spoiled(consortium: Consortium, operation: str, change: Any) -> None:
    """Site 2 answers an operation with changed bytes."""
    honest = consortium.desks[2].answer

    def answer(data: bytes) -> bytes:
        reply = read_message(honest(data))
        if reply.operation != operation:
            return reply.pack()
        changed = change(reply)
        return bytes(changed) if isinstance(changed, bytes) else changed.pack()

    consortium.exchange.sites = {**consortium.exchange.sites, 2: answer}


def with_first_number(reply: Any, number: float) -> Any:
    return with_body(reply, np.float64(number).tobytes() + reply.body[8:])


def with_body(reply: Any, body: bytes) -> Any:
    return type(reply)(*reply.names_same_question, body, reply.status)


def indefinite(body: bytes) -> bytes:
    """The same diagonal, and a symmetric entry beside it that is as large as Cauchy and Schwarz forbid."""
    n = int((len(body) // 8) ** 0.5)
    matrix = np.frombuffer(body, dtype="<f8").reshape(n, n).copy()
    matrix[0, 1] = matrix[1, 0] = 1.01 * np.sqrt(matrix[0, 0] * matrix[1, 1])
    return matrix.tobytes()


NO_TABLE = "no table within the schema"
FAULTS: dict[str, tuple[str, Any, str]] = {
    "nan": ("newton", lambda r: with_first_number(r, np.nan), "not finite"),
    "1e300": ("newton", lambda r: with_first_number(r, 1e300), NO_TABLE),
    "1e300 in a product": ("products of the table", lambda r: with_first_number(r, 1e300), NO_TABLE),
    "negative square": ("squares of the table", lambda r: with_first_number(r, -5.0), NO_TABLE),
    "a negative direction": ("products of the table", lambda r: with_body(r, indefinite(r.body)), NO_TABLE),
    "no rows": ("moments", lambda r: with_body(r, bytes(8) + r.body[8:]), "whole number"),
    "wrong shape": ("newton", lambda r: with_body(r, r.body[:-8]), "too few"),
    "too long": ("newton", lambda r: with_body(r, r.body + bytes(100 << 20)), "did not answer"),
    "old round": ("newton", lambda r: replace(r, round=r.round - 1), "did not answer"),
    "another ticket": ("newton", lambda r: replace(r, ticket=bytes(16)), "did not answer"),
    "garbage": ("newton", lambda r: b"GET / HTTP/1.1", "did not answer"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_wrong_answer_stops_with_one_line_that_names_the_site(fault: str, tmp_path: Path) -> None:
    operation, change, text = FAULTS[fault]
    consortium = Consortium(schema_for("logistic"), cut(patients("logistic")), tmp_path)
    spoiled(consortium, operation, change)
    with pytest.raises(SiteFault, match=f"^site 2 .*{text}") as stop:
        consortium.fit()
    assert "\n" not in str(stop.value)


def test_another_schema_an_old_round_and_an_unknown_operation_are_refused_at_the_site(tmp_path: Path) -> None:
    consortium = Consortium(schema_for("logistic"), cut(patients("logistic")), tmp_path)
    consortium.assembly.ask("match")
    question = read_message(consortium.exchange.passed[0])
    kind, desk = type(question), consortium.desks[1]
    for other in (
        kind(bytes(32), *question.names_same_question[1:]),
        kind(question.study, 0, *question.names_same_question[2:]),
        kind(*question.names_same_question[:4], "os.system"),
        kind(question.study, question.round, 2, question.ticket, question.operation),
    ):
        reply = read_message(desk.answer(other.pack()))
        assert reply.status is not None
        assert reply.status.name == "REFUSED"
        assert reply.body == b""
    assert desk.answer(b"no message") == b""


def test_a_site_answers_a_limited_number_of_questions_over_restarts(tmp_path: Path) -> None:
    consortium = Consortium(schema_for("logistic"), cut(patients("logistic")), tmp_path)
    consortium.desks[2].most_questions = 3
    with pytest.raises(SiteFault, match="site 2 refused"):
        consortium.fit()
    consortium.assembly.ask("finish", {"released": False})  # it had waited for a day: the end was one question too many
    assert [desk.finished for desk in consortium.desks.values()] == [False] * 3


def test_a_ticket_of_another_site_is_no_answer(tmp_path: Path) -> None:
    consortium = Consortium(schema_for("logistic"), cut(patients("logistic")), tmp_path)
    consortium.assembly.ask("match")
    first, reply, second, _ = consortium.exchange.passed[:4]
    assert answers_question(read_message(first), reply)
    assert not answers_question(read_message(second), reply)
    assert not answers_question(None, reply)


def test_whatever_fails_at_a_site_becomes_a_status_without_a_text(tmp_path: Path) -> None:
    consortium = Consortium(schema_for("logistic"), cut(patients("logistic")), tmp_path)
    (tmp_path / "site2" / "asked.json").write_text("damaged CANARY")
    with pytest.raises(SiteFault, match=r"^site 2 could not compute match; its own terminal says why$"):
        consortium.assembly.ask("match")
    assert consortium.said[-1] == "match: failed (JSONDecodeError)"
    assert b"CANARY" not in b"".join(consortium.exchange.passed)
