"""`federate init`, `coordinator` and `site`: what is written, and bad input in one line with exit code 2."""

from __future__ import annotations

import json
import re
import stat
from hashlib import sha256
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from dosimeter.cli.main import run
from dosimeter.tables.consortium_schema import read_schema
from dosimeter.tables.schema_text import schema_text
from tests.models.consortium import schema_for
from tests.models.study_parts import schema_with

TRAINING = {"rounds": 10}


def folder_of(tmp_path: Path, schema: object = None) -> Path:
    """A consortium as `federate init` writes it."""
    text = schema_text(schema_for("logistic") if schema is None else schema)  # type: ignore[arg-type]
    (tmp_path / "schema.toml").write_text(text)
    arguments = ["--schema", str(tmp_path / "schema.toml"), "--host", "127.0.0.1", "--out", str(tmp_path / "c")]
    assert run(["federate", "init", *arguments, "-q"]) == 0
    return tmp_path / "c"


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line of a command that is refused."""
    assert run(["federate", *arguments]) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1, lines
    return lines[0]


def test_every_party_gets_its_own_folder_and_keys_are_private(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["CHECKLIST.md", "authority", "coordinator", "site-1-north", "site-2-south", "site-3-east"]
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in folder.rglob("*") if path.is_file())
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o700 for path in folder.iterdir() if path.is_dir())
    keys = {path: path.read_bytes() for path in folder.rglob("*.key")}
    assert len(set(keys.values())) == len(keys) == 5
    assert [path for path in folder.rglob("ca.key")] == [folder / "authority" / "ca.key"]


def test_a_certificate_fits_one_role_only(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    uses = {
        folder / "coordinator" / "coordinator.crt": ExtendedKeyUsageOID.SERVER_AUTH,
        folder / "site-1-north" / "site.crt": ExtendedKeyUsageOID.CLIENT_AUTH,
    }
    for path, use in uses.items():
        certificate = x509.load_pem_x509_certificate(path.read_bytes())
        assert list(certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) == [use]


@pytest.mark.parametrize(
    "schema",
    [
        schema_for("poisson", scale=0.5),
        schema_with(release={"name": "r", "epsilon": 1.0, "delta": 1e-6, "noise-at": "sites"}, components={}),
        schema_with("class", patients=500, release={"name": "r", "epsilon": 2.0, "delta": 1e-6}, training=TRAINING),
    ],
    ids=["model", "components", "training"],
)
def test_the_same_complete_schema_is_at_every_party(schema: object, tmp_path: Path) -> None:
    folder = folder_of(tmp_path, schema)
    digests = {read_schema(path).digest for path in folder.rglob("schema.toml")}
    assert len(digests) == 1
    files = {sha256(path.read_bytes()).hexdigest() for path in folder.rglob("schema.toml")}
    assert len(files) == 1
    assert files.pop() in (folder / "CHECKLIST.md").read_text()  # what `sha256sum schema.toml` says at a site


def test_the_noise_of_a_training_is_solved_for_the_budget(tmp_path: Path) -> None:
    """The accountant's ε of the written rounds is at most the budget, and close to it."""
    from dosimeter.models.consortium_training import PatientTraining

    schema = schema_with("class", patients=500, release={"name": "r", "epsilon": 2.0, "delta": 1e-6}, training=TRAINING)
    training = PatientTraining(read_schema(folder_of(tmp_path, schema) / "coordinator" / "schema.toml"))
    assert 1.9 < training.dose.epsilon(1e-6) <= 2.0


def test_init_refuses_in_one_line_and_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    schema = tmp_path / "schema.toml"
    schema.write_text(schema_text(schema_for("logistic")))
    out = tmp_path / "c"
    usual = ("init", "--schema", str(schema), "--out", str(out))
    assert "--host a b" in refused(capsys, *usual, "--host", "a b").replace("'", "")
    for host in ("192.0.2.10:8443", "192.0.2", "https://h", "fe80::1%eth0"):
        assert f"--host {host}: give an address or a name, without a port" in refused(capsys, *usual, "--host", host)
    assert "--port 0" in refused(capsys, *usual, "--host", "h", "--port", "0")
    assert "--days 0" in refused(capsys, *usual, "--host", "h", "--days", "0")
    assert "the folder above" in refused(
        capsys, "init", "--schema", str(schema), "--host", "h", "--out", str(out / "x" / "y")
    )
    assert "max-dose is for a model" in refused(capsys, *usual, "--host", "h", "--site-noise")
    schema.write_text(schema.read_text().replace("l2 = 0.01", "l3 = 0.01"))
    assert "l3 is not a key" in refused(capsys, *usual, "--host", "h")
    schema.write_text("study = [")
    assert "not valid TOML" in refused(capsys, *usual, "--host", "h")
    assert [path.name for path in tmp_path.iterdir()] == ["schema.toml"]


def test_a_training_that_the_budget_does_not_allow_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    terms = {"name": "r", "epsilon": 0.5, "delta": 1e-6}
    training = {"rounds": 100, "noise-multiplier": 0.6, "patients-per-round": 500.0}
    schema = tmp_path / "schema.toml"
    schema.write_text(schema_text(schema_with("class", patients=500, release=terms, training=training)))
    line = refused(capsys, "init", "--schema", str(schema), "--host", "h", "--out", str(tmp_path / "c"))
    assert "raise noise-multiplier in [training] or epsilon in [release]; nothing was written" in line
    assert not (tmp_path / "c").exists()


SCHEMA_FAULTS = {
    "lower = 18": ("lower = 180", "lower = 180 is not below upper = 100: give a range"),
    'target = "y"': ("", 'there is no target: name the column: target = "readmitted"'),
    'person = "id"': ("", 'there is no person: name the column: person = "patient_id"'),
}


@pytest.mark.parametrize("fault", SCHEMA_FAULTS)
def test_a_bad_schema_is_refused_without_options_that_the_command_has_not(
    fault: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    replacement, message = SCHEMA_FAULTS[fault]
    text = schema_text(schema_for("logistic"))
    path = tmp_path / "schema.toml"
    path.write_text(re.sub(rf"(?m)^{fault}(\.0)?$", replacement, text, count=1))
    line = refused(capsys, "init", "--schema", str(path), "--host", "h", "--out", str(tmp_path / "c"))
    assert line.endswith(message)


CONFIG_FAULTS = {
    "port = 8443": ("port = true", "port = True: give a whole number from 1 to 65535"),
    'schema = "schema.toml"': ('schema = "none.toml"', "none.toml: there is no such file"),
    'state = "state"': ('stat = "state"', "stat is not a key: did you mean state?"),
    'key = "': ('key = 7 #"', "key = 7"),
}


@pytest.mark.parametrize("fault", CONFIG_FAULTS)
@pytest.mark.parametrize("party", ["coordinator", "site"])
def test_a_bad_config_is_refused_in_one_line(
    party: str, fault: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = folder_of(tmp_path)
    path = (
        folder / "coordinator" / "consortium.toml" if party == "coordinator" else folder / "site-1-north" / "site.toml"
    )
    replacement, message = CONFIG_FAULTS[fault]
    path.write_text(path.read_text().replace(fault, replacement))
    assert message in refused(capsys, party, "--config", str(path))
    assert not (path.parent / "state").exists()


def test_a_site_needs_a_ledger_a_known_name_and_a_coordinator(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = folder_of(tmp_path) / "site-1-north"
    config, text = place / "site.toml", (place / "site.toml").read_text()
    assert "ledger.db" in refused(capsys, "site", "--config", str(config))
    config.write_text(text.replace('ledger = "ledger.db"\n', ""))
    assert "there is no ledger" in refused(capsys, "site", "--config", str(config))
    config.write_text(text.replace('site = "north"', 'site = "nord"'))
    assert "nord is not on the roster: use north, south, east" in refused(capsys, "site", "--config", str(config))
    config.write_text(re.sub('coordinator = ".*"', 'coordinator = "abc"', text))
    assert "coordinator is no fingerprint" in refused(capsys, "site", "--config", str(config))
    config.write_text(re.sub("host = .*", 'host = "127.0.0.1:8443"', text))
    assert "host = 127.0.0.1:8443: give an address or a name, without" in refused(
        capsys, "site", "--config", str(config)
    )
    config.write_text(text + 'missing = "skip"\n')
    assert "missing = skip: use refuse or drop" in refused(capsys, "site", "--config", str(config))


def test_the_config_of_the_other_party_is_named_as_such(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = folder_of(tmp_path)
    files = {"site": folder / "coordinator" / "consortium.toml", "coordinator": folder / "site-1-north" / "site.toml"}
    line = refused(capsys, "site", "--config", str(files["site"]))
    assert line.endswith("consortium.toml: it is the config of a coordinator: give site.toml")
    line = refused(capsys, "coordinator", "--config", str(files["coordinator"]))
    assert line.endswith("site.toml: it is the config of a site: give consortium.toml")


def test_files_that_an_editor_began_with_a_byte_order_mark_are_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = folder_of(tmp_path) / "site-1-north"
    for name in ("site.toml", "schema.toml"):
        (place / name).write_bytes(b"\xef\xbb\xbf" + (place / name).read_bytes().replace(b"\n", b"\r\n"))
    assert "ledger.db: the ledger cannot be read" in refused(capsys, "site", "--config", str(place / "site.toml"))


def test_a_transport_that_is_not_known_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = folder_of(tmp_path) / "coordinator" / "consortium.toml"
    config.write_text(config.read_text() + 'transport = "pigeon"\n')
    assert "transport = pigeon: use https or flower" in refused(capsys, "coordinator", "--config", str(config))


def test_the_result_of_init_is_json_without_a_key(tmp_path: Path) -> None:
    schema = tmp_path / "schema.toml"
    schema.write_text(schema_text(schema_for("logistic")))
    arguments = ["--schema", str(schema), "--host", "127.0.0.1", "--out", str(tmp_path / "c"), "-q"]
    assert run(["federate", "init", *arguments, "--json", str(tmp_path / "facts.json")]) == 0
    text = (tmp_path / "facts.json").read_text()
    assert json.loads(text)["sites"] == ["north", "south", "east"]
    assert "PRIVATE KEY" not in text
