"""Every edit of the database outside the ledger is detected, or changes nothing that the ledger reports."""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import NullPool, create_engine, text

from dosimeter.core.errors import Refusal, Tampered
from dosimeter.ledger import Ledger, LedgerLimit, schema

from .conftest import Place
from .samples import booking, of_all_kinds


def filled(place, sign=False):
    """Three releases of every notion, a changed limit and an erasure."""
    with place.create("fil=3", "eps=30@1e-6", sign=sign) as ledger:
        for month in ("may", "june", "july"):
            ledger.book(of_all_kinds(month))
        ledger.set_budget(LedgerLimit.parse("mu=5"))
        ledger.erase("person 3")
        return content(ledger)


def content(ledger):
    """Everything that the ledger reports, and every byte it released."""
    return ledger.export(), [ledger.artefact(entry.name) for entry in ledger.releases()], ledger.budgets


def ask(place):
    """The content of a ledger, after it was opened and verified."""
    with place.open() as ledger:
        ledger.verify()
        return content(ledger)


@pytest.mark.parametrize("flips", [150, pytest.param(1000, marks=pytest.mark.slow)])
def test_of_many_flipped_bytes_each_is_detected_or_harmless(file_place, flips):
    before = filled(file_place)
    intact = Path(file_place.target).read_bytes()
    rng, detected = random.Random(5), 0
    for place in rng.sample(range(len(intact)), flips):
        altered = bytearray(intact)
        altered[place] ^= rng.randrange(1, 256)
        Path(file_place.target).write_bytes(altered)
        try:
            assert ask(file_place) == before, f"byte {place}"
        except Refusal:
            detected += 1
    assert detected > flips / 4  # most bytes of a page in use are detected
    Path(file_place.target).write_bytes(intact)
    assert ask(file_place) == before


def altered(place, *statements):
    """Run SQL outside the ledger, with constraints off."""
    if place.kind == "sqlite":
        with closing(sqlite3.connect(place.target)) as connection, connection:
            for statement in statements:
                assert connection.execute(statement).rowcount != 0, statement
        return
    engine = create_engine(place.target.replace("postgresql:", "postgresql+psycopg:"), poolclass=NullPool)
    with engine.begin() as connection:
        connection.execute(text("SET session_replication_role = replica"))
        for statement in statements:
            assert connection.execute(text(statement)).rowcount != 0, statement


EDITS = {
    "ledger.id": "UPDATE dosimeter_ledger SET id = 2",
    "ledger.uuid": "UPDATE dosimeter_ledger SET uuid = 'ff'",
    "entry.seq": "UPDATE dosimeter_entry SET seq = 99 WHERE seq = 3",
    "entry.kind": "UPDATE dosimeter_entry SET kind = 'budget' WHERE seq = 3",
    "entry.kind of a limit": "UPDATE dosimeter_entry SET kind = 'nothing' WHERE seq = 5",
    "entry.name": "UPDATE dosimeter_entry SET name = 'other' WHERE seq = 3",
    "entry.name gone": "UPDATE dosimeter_entry SET name = NULL WHERE seq = 3",
    "entry.artefact": "UPDATE dosimeter_entry SET artefact = 'ff' WHERE seq = 3",
    "entry.draw": "UPDATE dosimeter_entry SET draw = NULL WHERE seq = 3",
    "entry.body": "UPDATE dosimeter_entry SET body = replace(body, 'monthly', 'weekly') WHERE seq = 3",
    "entry.body of the first": "UPDATE dosimeter_entry SET body = replace(body, '3.0', '9.0') WHERE seq = 1",
    "entry.body with blanks": "UPDATE dosimeter_entry SET body = body || ' ' WHERE seq = 3",
    "entry.digest": "UPDATE dosimeter_entry SET digest = 'x' || substr(digest, 2) WHERE seq = 3",
    "entry.signature": "UPDATE dosimeter_entry SET signature = 'ff' WHERE seq = 3",
    "artefact.seq": "UPDATE dosimeter_artefact SET seq = 5 WHERE seq = 3",
    "artefact.data": "UPDATE dosimeter_artefact SET data = '\\x00' WHERE seq = 3",
    "part.id": "UPDATE dosimeter_part SET id = 99 WHERE id = 2",
    "part.seq": "UPDATE dosimeter_part SET seq = 3 WHERE id = 2",
    "part.account": "UPDATE dosimeter_part SET account = 'mu|person|own units' WHERE id = 2",
    "part.event": "UPDATE dosimeter_part SET event = replace(event, '20.0', '90.0') WHERE event IS NOT NULL",
    "part.event gone": "UPDATE dosimeter_part SET event = NULL WHERE event IS NOT NULL",
    "dose.part": "UPDATE dosimeter_dose SET part = part + 50 WHERE part = 2",
    "dose.pseudonym": "UPDATE dosimeter_dose SET pseudonym = '0123456789abcdef' "
    "WHERE pseudonym = (SELECT pseudonym FROM dosimeter_dose WHERE part = 1 ORDER BY pseudonym LIMIT 1) AND part = 1",
    "dose.amount": "UPDATE dosimeter_dose SET amount = amount - 1 WHERE part = 1",
    "dose.amount negative": "UPDATE dosimeter_dose SET amount = -amount WHERE part = 1",
    "block.part": "UPDATE dosimeter_block SET part = part - 1 WHERE part = 2",
    "block.pseudonym": "UPDATE dosimeter_block SET pseudonym = '0123456789abcdef' "
    "WHERE pseudonym = (SELECT pseudonym FROM dosimeter_block WHERE part = 2 ORDER BY pseudonym LIMIT 1) AND part = 2",
    "block.unknowns": "UPDATE dosimeter_block SET unknowns = substr(unknowns, 2) || substr(unknowns, 1, 1) "
    "WHERE part = 2",
    "block.data": "UPDATE dosimeter_block SET data = '\\x00' WHERE part = 2",
    "ledger dropped": "DELETE FROM dosimeter_ledger",
    "the last entry dropped": "DELETE FROM dosimeter_entry WHERE seq = 6",
    "an entry dropped": "DELETE FROM dosimeter_entry WHERE seq = 3",
    "artefact dropped": "DELETE FROM dosimeter_artefact WHERE seq = 3",
    "part dropped": "DELETE FROM dosimeter_part WHERE id = 2",
    "dose dropped": "DELETE FROM dosimeter_dose WHERE part = 1",
    "block dropped": "DELETE FROM dosimeter_block WHERE part = 2",
    "ledger added": "INSERT INTO dosimeter_ledger VALUES (2, 1, 'ff')",
    "entry added": "INSERT INTO dosimeter_entry SELECT 7, kind, 'x', 'x', 'x', body, digest, signature "
    "FROM dosimeter_entry WHERE seq = 4",
    "artefact added": "INSERT INTO dosimeter_artefact SELECT 5, data FROM dosimeter_artefact WHERE seq = 3",
    "part added": "INSERT INTO dosimeter_part SELECT 99, seq, account, event FROM dosimeter_part WHERE id = 2",
    "dose added": "INSERT INTO dosimeter_dose SELECT 2, '0123456789abcdef', 5 FROM dosimeter_ledger",
    "block added": "INSERT INTO dosimeter_block SELECT 2, '0123456789abcdef', unknowns, data "
    "FROM dosimeter_block WHERE part = 2 ORDER BY pseudonym LIMIT 1",
    "block added to a part without": "INSERT INTO dosimeter_block SELECT 1, pseudonym, unknowns, data "
    "FROM dosimeter_block WHERE part = 2",
    "dose added to no part": "INSERT INTO dosimeter_dose SELECT 77, pseudonym, 5 FROM dosimeter_dose WHERE part = 2",
}


def test_every_column_of_every_table_is_among_the_edits():
    wanted = {
        f"{table.name.split('_')[1]}.{column.name}" for table in schema.metadata.tables.values() for column in table.c
    }
    # The digest does not cover the version: a higher one is refused, a lower one repeats additions that exist already.
    assert wanted - set(EDITS) == {"ledger.version"}


@pytest.fixture(scope="module")
def filled_files(tmp_path_factory):
    """The folder of a filled ledger that is a file, closed, to be copied."""
    folder = tmp_path_factory.mktemp("filled")
    filled(Place(str(folder / "book.db"), folder / "book.keys", "sqlite"))
    return folder


@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_dropped_or_added_row_is_detected(filled_files, file_place, edit):
    shutil.copytree(filled_files, Path(file_place.target).parent, dirs_exist_ok=True)
    ask(file_place)
    altered(file_place, EDITS[edit])
    # With another identity it is another ledger.
    with pytest.raises(Refusal if edit == "ledger.uuid" else Tampered):
        ask(file_place)


def test_edited_dropped_and_added_rows_are_detected_on_postgresql(new_place):
    """All of them on one ledger, each undone before the next."""
    place = new_place("postgresql")
    before = filled(place)
    engine = create_engine(place.target.replace("postgresql:", "postgresql+psycopg:"), poolclass=NullPool)
    missed = []
    for name, edit in EDITS.items():
        statement = edit.replace("'0123456789abcdef'", "'0123456789abcdef'::bytea").replace("'\\x00'", "'\\x00'::bytea")
        with engine.connect() as connection, connection.begin() as undone:
            connection.execute(text("SET LOCAL session_replication_role = replica"))
            assert connection.execute(text(statement)).rowcount != 0, name
            try:
                _verify_within(place, connection)
            except Tampered:
                pass
            else:
                missed.append(name)
            undone.rollback()
    # These two are detected by the newest link of the chain or the key file, not by the rows.
    assert missed in ([], ["the last entry dropped"])
    assert ask(place) == before


def _verify_within(place, connection):
    """`verify` in a separate transaction, so that the edit is rolled back."""
    from dosimeter.ledger.database import Database
    from dosimeter.ledger.pseudonyms import Keys
    from dosimeter.ledger.verify import verify

    database, keys = Database(place.target), Keys.open(place.keys)
    try:
        verify(connection, database, "", keys.seal_of)
    finally:
        keys.close()
        database.close()


def test_reordered_entries_are_detected(place):
    filled(place)
    altered(
        place,
        "UPDATE dosimeter_entry SET seq = 99 WHERE seq = 2",
        "UPDATE dosimeter_entry SET seq = 2 WHERE seq = 3",
        "UPDATE dosimeter_entry SET seq = 3 WHERE seq = 99",
    )
    with pytest.raises(Tampered):
        ask(place)


def test_a_cleanly_truncated_chain_is_refused_by_the_key_file(place):
    filled(place)
    with place.open() as ledger:
        ledger.book(booking("august"))
    last = 7
    altered(
        place,
        f"DELETE FROM dosimeter_dose WHERE part IN (SELECT id FROM dosimeter_part WHERE seq = {last})",
        f"DELETE FROM dosimeter_part WHERE seq = {last}",
        f"DELETE FROM dosimeter_artefact WHERE seq = {last}",
        f"DELETE FROM dosimeter_entry WHERE seq = {last}",
    )
    with pytest.raises(Tampered, match="older copy"):
        place.open()
    # Without the key file nothing is missing: the shorter chain is consistent, and the result says what was checked.
    place.keys.rename(place.keys.with_name("away"))
    with place.open(without_keys=True) as ledger:
        assert not ledger.verify().keys_checked


def test_an_older_copy_of_the_file_is_refused(file_place, tmp_path):
    filled(file_place)
    shutil.copy(file_place.target, tmp_path / "copy")
    with file_place.open() as ledger:
        ledger.book(booking("august"))
    shutil.copy(tmp_path / "copy", file_place.target)
    with pytest.raises(Tampered, match="older copy"):
        file_place.open()


def test_a_ledger_rewritten_from_the_middle_is_refused(file_place, tmp_path):
    """As long as the old chain and consistent, but not the one that the key file remembers."""
    with file_place.create() as ledger:
        ledger.book(booking("may"))
    shutil.copy(file_place.target, tmp_path / "copy.db")
    shutil.copy(file_place.keys, tmp_path / "copy.keys")
    (tmp_path / "copy.keys").chmod(0o600)
    for target, keys in ((file_place.target, file_place.keys), (tmp_path / "copy.db", tmp_path / "copy.keys")):
        with Ledger.open(target, keys=keys) as ledger:
            ledger.book(booking("june"))
    shutil.copy(tmp_path / "copy.db", file_place.target)
    with pytest.raises(Tampered, match="does not hold"):
        file_place.open()


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9, 0.999])
def test_a_truncated_file_is_detected(file_place, share):
    filled(file_place)
    intact = Path(file_place.target).read_bytes()
    Path(file_place.target).write_bytes(intact[: int(len(intact) * share)])
    with pytest.raises(Refusal):
        ask(file_place)


def test_a_trigger_in_the_file_is_detected(file_place):
    filled(file_place)
    with closing(sqlite3.connect(file_place.target)) as connection, connection:
        connection.execute("CREATE TRIGGER t AFTER INSERT ON dosimeter_dose BEGIN DELETE FROM dosimeter_dose; END")
    with pytest.raises(Tampered, match="trigger"):
        ask(file_place)


def test_a_signed_chain_is_signed_throughout(place):
    filled(place, sign=True)
    with place.open() as ledger:
        verification = ledger.verify()
        assert len(verification.signed) == 64
        assert ledger.verify(verification.signed) == verification
        with pytest.raises(Tampered, match="not signed by this key"):
            ledger.verify("ab" * 32)
    altered(
        place, "UPDATE dosimeter_entry SET signature = substr(signature, 2) || substr(signature, 1, 1) WHERE seq = 4"
    )
    with pytest.raises(Tampered, match="entry 4 does not carry the signature"):
        ask(place)


def test_a_chain_rewritten_without_the_signing_key_is_detected(file_place):
    """With the database but without the keys, an attacker can compute digests but no signature."""
    from dosimeter.ledger.hash_chain import GENESIS_DIGEST, link

    filled(file_place, sign=True)
    with file_place.open() as ledger:
        public = ledger.verify().signed
    with closing(sqlite3.connect(file_place.target)) as connection, connection:
        previous = GENESIS_DIGEST
        for seq, body in connection.execute("SELECT seq, body FROM dosimeter_entry ORDER BY seq").fetchall():
            body = body.replace("monthly", "weekly")
            previous = link(previous, body)
            connection.execute("UPDATE dosimeter_entry SET body = ?, digest = ? WHERE seq = ?", (body, previous, seq))
    file_place.keys.rename(file_place.keys.with_name("away"))
    with file_place.open(without_keys=True) as ledger, pytest.raises(Tampered, match="signature"):
        ledger.verify(public)


@pytest.mark.parametrize("sign", [False, True])
@pytest.mark.parametrize("seal", ["NULL", "'ff'", "(SELECT signature FROM dosimeter_entry WHERE seq = 6)"])
def test_a_higher_limit_written_without_the_key_file_is_refused(file_place, sign, seal):
    """A database may be ahead of its key file after a crash: the entry fits the chain, and only its seal is wrong."""
    from dosimeter.ledger.hash_chain import canonical, link

    filled(file_place, sign)
    with closing(sqlite3.connect(file_place.target)) as connection, connection:
        (body, before) = connection.execute("SELECT body, digest FROM dosimeter_entry WHERE seq = 6").fetchone()
        forged = {key: value for key, value in json.loads(body).items() if key in ("salts", "erased", "time")}
        limit = {"key": "fil", "limit": 900.0, "delta": 0.0}
        forged = canonical({**forged, "seq": 7, "kind": "budget", "budgets": [limit], "note": ""})
        connection.execute(
            f"INSERT INTO dosimeter_entry SELECT 7, 'budget', NULL, NULL, NULL, ?, ?, {seal}",
            (forged, link(before, forged)),
        )
    with pytest.raises(Tampered, match="entry 7 was not written with this key file"):
        file_place.open()


def test_an_open_ledger_books_nothing_after_a_forged_entry(file_place):
    from dosimeter.ledger.hash_chain import link

    with file_place.create() as ledger:
        ledger.book(booking("may"))
        with closing(sqlite3.connect(file_place.target)) as connection, connection:
            body, digest = connection.execute("SELECT body, digest FROM dosimeter_entry WHERE seq = 2").fetchone()
            body = body.replace('"seq":2', '"seq":3').replace('"may"', '"june"')
            connection.execute(
                "INSERT INTO dosimeter_entry SELECT 3, kind, 'june', 'x', 'x', ?, ?, signature "
                "FROM dosimeter_entry WHERE seq = 2",
                (body, link(digest, body)),
            )
        for deed in (
            lambda: ledger.book(booking("july")),
            lambda: ledger.preview(booking("july")),
            lambda: ledger.set_budget(LedgerLimit.parse("mu=5")),
            lambda: ledger.erase("ann"),
        ):
            with pytest.raises(Tampered, match="not written with this key file"):
                deed()


def test_the_seal_of_another_entry_is_detected_without_signatures(file_place):
    filled(file_place)
    altered(
        file_place,
        "UPDATE dosimeter_entry SET signature = (SELECT signature FROM dosimeter_entry WHERE seq = 4) WHERE seq = 3",
    )
    with file_place.open() as ledger, pytest.raises(Tampered, match="entry 3 was not written with this key file"):
        ledger.verify()
    file_place.keys.rename(file_place.keys.with_name("away"))
    with file_place.open(without_keys=True) as ledger:
        assert not ledger.verify().keys_checked  # without the key file an HMAC cannot be checked


def test_other_bytes_of_the_same_length_are_detected_by_their_digest(file_place):
    filled(file_place)
    altered(file_place, "UPDATE dosimeter_artefact SET data = zeroblob(length(data)) WHERE seq = 3")
    with pytest.raises(Tampered, match="the artefact of entry 3"):
        ask(file_place)


def test_an_entry_that_is_missing_is_named(file_place):
    filled(file_place)
    altered(file_place, "DELETE FROM dosimeter_entry WHERE seq = 3")
    with pytest.raises(Tampered, match="entry 3 is missing"):
        ask(file_place)
