"""A consortium over real processes and real TLS: the right release, or a stop with one line."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import skops.io as sio
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509 import load_pem_x509_certificate

import dosimeter as dm
from dosimeter.engines.certificates import Authority, write_certificate, write_key
from dosimeter.engines.https_transport import open_exchange
from dosimeter.engines.protocol.assembly import Assembly
from dosimeter.files.consortium_config import read_coordinator_config
from dosimeter.files.consortium_journal import open_journal
from dosimeter.models.consortium_study import CoordinatorStudy
from dosimeter.models.model_study import joint_fit, prepare_model
from dosimeter.models.moment_study import exact_moment
from dosimeter.pca.release import person_sums
from dosimeter.serve import consortium_page
from dosimeter.serve.consortium_page import consortium
from dosimeter.tables.consortium_schema import schema_of
from tests.deadlines import PATIENCE, wait_until
from tests.models.consortium import patients, schema_for
from tests.models.study_parts import COLUMNS, schema_with
from tests.workflows.network_parts import FAULT, RELEASED, SAID_NO, SPOILED, UNCHECKED, Hospitals

pytestmark = pytest.mark.skipif(os.name == "nt", reason="a fork server")


def study_here(hospitals: Hospitals, work: Any) -> Any:
    """What `work` does with a study whose coordinator is this process and whose sites are others."""
    settings = read_coordinator_config(hospitals.coordinator / "consortium.toml")
    schema = hospitals.schema
    roster = {site.certificate: site.number for site in schema.sites}
    with (
        open_journal(settings.state, schema.digest) as journal,
        open_exchange(settings.place, roster) as exchange,
        hospitals.sites(),
    ):
        numbers = [site.number for site in schema.sites]
        assembly = Assembly(
            exchange, schema.digest, numbers, schema.sizes, deadline=60.0, first_round=journal.first_round
        )
        return work(CoordinatorStudy(schema, assembly, journal, print))


@pytest.mark.parametrize("loss", ["squared", "logistic", "poisson"])
def test_fit_doses_and_ledgers_are_those_of_the_joint_table(loss: str, tmp_path: Path) -> None:
    rows = patients(loss)
    hospitals = Hospitals(tmp_path, schema_for(loss), rows)

    def work(study: CoordinatorStudy) -> Any:
        return joint_fit(study), prepare_model(study)

    joint, draw = study_here(hospitals, work)
    expected = dm.measure(
        rows, target="y", person="id", bounds=hospitals.schema.bounds, noise=dm.Gaussian(draw.figures["scale"]),
        loss=loss, l2=0.01,
    )  # fmt: skip
    np.testing.assert_allclose(joint.fitted.w, expected.fit.w, rtol=0, atol=1e-9)
    doses: dict[str, float] = {}
    for place in hospitals.places:
        pending = json.loads((place / "state" / "pending.json").read_text())
        doses |= dict(zip(pending["ids"], map(float.fromhex, pending["doses"]), strict=True))
    assert doses.keys() == {str(person) for person in expected.persons}
    np.testing.assert_allclose([doses[str(p)] for p in expected.persons], list(expected.persons.values()), rtol=1e-9)


def test_second_moments_over_the_network_are_those_of_the_joint_table(tmp_path: Path) -> None:
    rows = {name: column for name, column in patients("squared").items() if name != "y"}
    schema = schema_with(release={"name": "r1", "epsilon": 2.0, "delta": 1e-6}, components={"components": 2})
    hospitals = Hospitals(tmp_path, schema, rows, budget="eps=5@1e-6")
    products, sums, people = study_here(hospitals, exact_moment)
    from dosimeter.models.consortium_moments import MomentTerms
    from dosimeter.tables.table import Table

    terms = MomentTerms(hospitals.schema)
    X = terms.rows(Table.of(rows, text=["id", "sex"]))
    joint = person_sums(X, rows["id"], terms.bounds)
    np.testing.assert_allclose(products, joint[0], rtol=0, atol=1e-9)
    np.testing.assert_allclose(sums, joint[1], rtol=0, atol=1e-9)
    assert people == joint[2]


Finished = tuple[Hospitals, int, list[int | None]]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """A whole study with the two commands, once."""
    hospitals = Hospitals(tmp_path_factory.mktemp("finished"), schema_for("logistic"), patients("logistic"))
    with hospitals.sites() as running:
        code = hospitals.coordinate()
        for process in running:
            process.join(PATIENCE)
        return hospitals, code, [process.exitcode for process in running]


def test_a_study_ends_with_a_release_and_the_sites_end_with_it(
    finished: Finished,
) -> None:
    hospitals, code, sites = finished
    assert (code, sites) == (RELEASED, [0, 0, 0])
    assert hospitals.people_booked_are_the_own_ones()
    model = sio.loads(hospitals.release.read_bytes(), trusted=[])
    assert model["model"].coef_.shape == (1, 4)
    for place in hospitals.places:
        with dm.Ledger.open(place / "ledger.db") as ledger:
            assert ledger.artefact("r1") == hospitals.release.read_bytes()


def test_nothing_private_is_readable_by_others(finished: Finished) -> None:
    hospitals, _, _ = finished
    private = [*hospitals.folder.rglob("*.key"), *hospitals.folder.rglob("state/*"), hospitals.release]
    assert {oct(path.stat().st_mode & 0o777) for path in private} == {"0o600"}


def test_what_is_said_holds_no_cell_and_no_id(finished: Finished) -> None:
    hospitals, _, _ = finished
    said = "".join(hospitals.said(party) for party in ("coordinator", 1, 2, 3))
    words = set(said.replace(",", " ").replace(":", " ").split())
    assert not words & {str(person) for person in hospitals.rows["id"]}
    assert not words & {repr(float(age)) for age in hospitals.rows["age"]}


def test_a_second_run_writes_the_same_file_and_books_nothing(finished: Finished) -> None:
    hospitals, _, _ = finished
    before = hospitals.release.read_bytes()
    hospitals.release.unlink()
    assert hospitals.coordinate() == RELEASED
    assert hospitals.release.read_bytes() == before
    assert hospitals.people_booked_are_the_own_ones()


def kill_again_and_again(hospitals: Hospitals, before: Iterable[int], after: Iterable[int]) -> int:
    """Kill the coordinator at these moments until it has drawn, then at those, then let it end; the number of kills."""
    kills, draws = 0, set()
    journal = hospitals.coordinator / "state" / "journal.json"
    early, late = iter(before), iter(after)
    with hospitals.sites():
        while (moment := next(late if draws else early, None)) is not None:
            code = hospitals.coordinate(kill_at=moment)
            assert code in (-9, RELEASED), hospitals.said("coordinator")
            kills += code == -9
            stored = json.loads(journal.read_text()) if journal.exists() else {}
            draws |= {stored["artefact"]} if "artefact" in stored else set()
            if code == RELEASED:
                break
        assert hospitals.coordinate() == RELEASED
    assert len(draws) <= 1
    assert hospitals.people_booked_are_the_own_ones()
    for place in hospitals.places:
        with dm.Ledger.open(place / "ledger.db") as ledger:
            assert ledger.artefact("r1") == hospitals.release.read_bytes()
    return kills


def test_a_coordinator_that_is_killed_goes_on_and_never_draws_twice(tmp_path: Path) -> None:
    """Early in the fit, around the draw, around the booking, and before the file is there."""
    hospitals = Hospitals(tmp_path, schema_for("logistic"), patients("logistic"))
    assert kill_again_and_again(hospitals, [5, 38, 41, 44, 47], [4, 6, 8]) >= 4


@pytest.mark.slow
def test_a_coordinator_that_is_killed_fifty_times_goes_on_and_never_draws_twice(tmp_path: Path) -> None:
    hospitals = Hospitals(tmp_path, schema_for("logistic"), patients("logistic"))
    for k in (1, 2, 3):
        hospitals.set(k, "most-questions", "100000")
    assert kill_again_and_again(hospitals, [*range(1, 21), *range(1, 60)], range(1, 30)) >= 50


def training_of(rounds: int) -> Any:
    return schema_with(
        "class", patients=80, release={"name": "r1", "epsilon": 20.0, "delta": 1e-6},
        training={"rounds": rounds, "patients-per-round": 100.0, "noise-multiplier": 1.5},
    )  # fmt: skip


def test_a_training_that_is_killed_pays_every_round_once(tmp_path: Path) -> None:
    from dosimeter.files.federated_checkpoint import read_state

    hospitals = Hospitals(tmp_path, training_of(2), patients("logistic"), budget="eps=50@1e-6")
    assert kill_again_and_again(hospitals, [11, 9], []) == 2
    state = read_state(hospitals.coordinator / "state" / "training.npz", hospitals.schema.digest.hex())
    assert (state.round, sum(spend.rounds for spend in state.spent), state.simulation) == (2, 2, False)


def test_a_site_that_is_killed_in_a_round_comes_back_and_the_study_ends(tmp_path: Path) -> None:
    hospitals = Hospitals(tmp_path, schema_for("logistic"), patients("logistic"))
    with hospitals.sites(1, 3), hospitals.coordinator_beside() as codes:
        with hospitals.sites(2, delay=0.5) as (process,):
            assert wait_until(lambda: hospitals.has_in_hand(2, "newton"))
            process.kill()
        with hospitals.sites(2):
            assert wait_until(lambda: codes)
    assert codes == [RELEASED]
    assert hospitals.people_booked_are_the_own_ones()


def page_of(hospitals: Hospitals) -> str:
    """What `dosimeter serve` shows of the coordinator."""
    return repr(consortium(hospitals.coordinator / "state", alone=True).sections)


def test_a_straggler_beyond_the_deadline_stops_it_with_one_line_and_a_second_run_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consortium_page, "AWAY", PATIENCE)  # the first of the three was heard of a while ago
    hospitals = Hospitals(tmp_path, schema_for("logistic"), patients("logistic"))
    hospitals.set("coordinator", "deadline", "3")
    with hospitals.sites(1, 3), hospitals.sites(2, delay=PATIENCE), hospitals.coordinator_beside() as codes:
        assert wait_until(lambda: hospitals.has_in_hand(2))
        assert wait_until(lambda: page_of(hospitals).count("'connected'") == 3)
        hospitals.deadlines_pass(2)
    assert codes == [FAULT]
    assert hospitals.said("coordinator").endswith("error: site 2 did not answer match within 3 s\n")
    assert not hospitals.release.exists()
    hospitals.deadlines_pass()
    with hospitals.sites():
        assert hospitals.coordinate() == RELEASED
    assert hospitals.people_booked_are_the_own_ones()


FAULTS = {
    "nan": "site 2 sent a number that is not finite as newton",
    "1e300": "site 2 sent a sum that no table within the schema gives as newton",
    "wrong shape": "site 2 sent 8 bytes too few as newton",
    "100 MB": "site 2 did not answer newton within 8 s",
    "old round": "site 2 did not answer newton within 8 s",
    "another site's ticket": "site 2 did not answer newton within 8 s",
}


@pytest.mark.parametrize(
    "faults", [["nan", "wrong shape", "another site's ticket"], pytest.param(list(FAULTS), marks=pytest.mark.slow)]
)
def test_what_a_bad_site_sends_stops_the_study_with_one_line_and_an_honest_one_ends_it(
    faults: list[str], tmp_path: Path
) -> None:
    hospitals = Hospitals(tmp_path, schema_for("logistic"), patients("logistic"))
    hospitals.set("coordinator", "deadline", "8")
    assert FAULTS.keys() == SPOILED.keys()
    with hospitals.sites(1, 3):
        for fault in faults:
            with hospitals.sites(2, spoil=fault):
                assert hospitals.coordinate() == FAULT, fault
            errors = [text for text in hospitals.said("coordinator").splitlines() if text.startswith("error: ")]
            assert errors[-1] == f"error: {FAULTS[fault]}"
            assert not hospitals.release.exists()
        with hospitals.sites(2):
            assert hospitals.coordinate() == RELEASED
    assert hospitals.people_booked_are_the_own_ones()


def test_a_site_whose_patients_are_at_their_limit_stops_it_before_the_draw(tmp_path: Path) -> None:
    hospitals = Hospitals(tmp_path, schema_for("logistic"), patients("logistic"))
    with dm.Ledger.open(hospitals.places[1] / "ledger.db") as ledger:
        ledger.set_budget("fil=0.01")
    with hospitals.sites() as running:
        assert hospitals.coordinate() == SAID_NO
        for process in running:
            process.join(PATIENCE)
    assert not hospitals.release.exists()
    assert not (hospitals.coordinator / "state" / "release.bin").exists()
    assert hospitals.booked() == [[], [], []]
    assert "would exceed its ledger's limits: answered no" in hospitals.said(2)


def test_a_table_that_does_not_match_is_explained_at_the_site_only(tmp_path: Path) -> None:
    hospitals = Hospitals(tmp_path, schema_for("logistic"), patients("logistic"))
    path = hospitals.places[2] / "patients.csv"
    path.write_text(path.read_text().replace(",m,", ",CANARY,", 1))
    with hospitals.sites():
        assert hospitals.coordinate() == FAULT
    assert "error: site 3 does not match the schema; its own terminal says where" in hospitals.said("coordinator")
    assert "a level that the schema does not list" in hospitals.said(3)
    assert "CANARY" not in hospitals.said(3) + hospitals.said("coordinator")


def test_a_training_of_clients_runs_with_the_same_commands_and_is_booked_client_by_client(tmp_path: Path) -> None:
    clients = {"epsilon": 50.0, "delta": 1e-3, "rounds": 2, "noise-multiplier": 1.0, "epochs": 1}
    schema = schema_of(
        {
            "study": "practices", "target": "y", "clients": clients, "release": {"name": "r1"},
            "columns": {**COLUMNS, "y": {"levels": ["no", "yes"]}},
            "sites": [{"name": name} for name in ("north", "south", "east")],
        },
        complete=False,
    )  # fmt: skip
    hospitals = Hospitals(tmp_path, schema, patients("logistic"))
    dm.Ledger.create(hospitals.coordinator / "ledger.db", ["eps=60@1e-3"]).close()
    hospitals.set("coordinator", "ledger", '"ledger.db"')
    with hospitals.sites() as running:
        assert hospitals.coordinate() == RELEASED, hospitals.said("coordinator")
        for process in running:
            process.join(PATIENCE)
        assert [process.exitcode for process in running] == [0, 0, 0]
    assert "3 clients" not in page_of(hospitals)
    assert "'2 of 2'" in page_of(hospitals)
    with dm.Ledger.open(hospitals.coordinator / "ledger.db") as ledger:
        (entry,) = ledger.releases()
        assert entry.people == 3
        assert ledger.artefact("r1") == hospitals.release.read_bytes()


@pytest.mark.parametrize("kind", ["expired", "a stranger's"])
def test_a_site_with_another_certificate_gets_no_question_and_stops_with_one_line(kind: str, tmp_path: Path) -> None:
    hospitals = Hospitals(tmp_path, schema_for("logistic"), patients("logistic"))
    place = hospitals.places[1]
    authority = Authority(
        load_pem_x509_certificate((hospitals.folder / "authority" / "ca.crt").read_bytes()),
        load_pem_private_key((hospitals.folder / "authority" / "ca.key").read_bytes(), None),
    )
    signer = authority if kind == "expired" else Authority.create("mine", 2)
    certificate, key = signer.site("south", -1 if kind == "expired" else 2)
    for name in ("site.crt", "site.key"):
        (place / name).unlink()
    write_certificate(place / "site.crt", certificate)
    write_key(place / "site.key", key)
    hospitals.set(2, "patience", "1")
    hospitals.set("coordinator", "deadline", "6")
    with hospitals.sites(1, 3), hospitals.coordinator_beside() as codes:
        assert wait_until(lambda: hospitals.has_in_hand(1))  # the coordinator listens
        with hospitals.sites(2, spoil=UNCHECKED) as (bad,):
            bad.join(PATIENCE)
            assert bad.exitcode == FAULT
        hospitals.deadlines_pass(2)
    assert codes == [FAULT]
    assert hospitals.said("coordinator").endswith("error: site 2 did not answer match within 6 s\n")
    assert "the coordinator was not reached for 1 s" in hospitals.said(2)
    with hospitals.sites(2) as (bad,):  # one that looks at its own certificate knows before it connects
        bad.join(PATIENCE)
        assert bad.exitcode == FAULT
    assert "error: site.crt is not the certificate that the schema has for site 2, south" in hospitals.said(2)
    assert "ConnectionRefusedError" not in hospitals.said(2)  # it was refused by the certificate
    assert not (place / "ticket").exists()


def test_flower_carries_the_same_study(tmp_path: Path) -> None:
    pytest.importorskip("flwr", reason="the extra flower is not installed")
    hospitals = Hospitals(tmp_path, schema_for("logistic"), patients("logistic"))
    for party in ("coordinator", 1, 2, 3):
        hospitals.set(party, "transport", '"flower"')
    with hospitals.sites():
        assert hospitals.coordinate() == RELEASED, hospitals.said("coordinator")
    assert hospitals.people_booked_are_the_own_ones()
