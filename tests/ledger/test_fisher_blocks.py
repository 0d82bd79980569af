"""Totals from stored Fisher blocks, compared with the joint leakage of the releases, refits and quadrature."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
from sqlalchemy import LargeBinary, bindparam, create_engine, text

from dosimeter import Gaussian, glm
from dosimeter.core.dose import Dose
from dosimeter.core.errors import CannotMeasure, Refusal, Tampered
from dosimeter.core.fisher_block import FisherBlock, SummedFisherBlocks
from dosimeter.core.noise import Laplace
from dosimeter.core.notion import FISHER, MEMBERSHIP, Standing
from dosimeter.ledger import OverBudget

from .samples import booking, of_all_kinds

NANO = 1e-9
IDS = [f"p{k}" for k in (0, 1, 1, 2, 2, 2, 3, 4, 5, 5, 6, 7, 8, 9, 9, 9)]
TIED = (2,)


def table(seed=3):
    """16 rows of 10 people; the last column is one value per person."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(len(IDS), 3))
    constant = dict(zip(IDS, rng.normal(size=len(IDS)), strict=True))
    X[:, 2] = [constant[person] for person in IDS]
    return X, np.abs(X @ [0.5, -0.3, 0.2] + rng.normal(size=len(IDS)))


def leakage(l2=0.1, loss=None, noise=None, X=None, y=None):
    if X is None:
        X, y = table()
    fit = glm.fit(X, y, glm.Squared() if loss is None else loss, l2, intercept=True)
    return glm.measure(fit, X, y, noise or Gaussian(0.7))


def person_dose(leak, X=None, y=None, blocks=True, **fields):
    if X is None:
        X, y = table()
    eta = leak.group(IDS, tied=TIED)
    bare = Dose.of_figures(FISHER, "person", list(eta), list(eta.values()), **fields)
    return (
        replace(bare, fisher_blocks=glm.fisher_blocks(leak, IDS, np.column_stack([X, y]), tied=TIED))
        if blocks
        else bare
    )


def squares(ledger):
    """The total of each person in η²."""
    return {person: ledger.person(person).totals[0].reading ** 2 for person in dict.fromkeys(IDS)}


UNLIKE = {
    "l2": lambda: (leakage(0.01), leakage(5.0)),
    "loss": lambda: (leakage(0.1), leakage(0.1, glm.Poisson())),
    "noise": lambda: (leakage(0.1, noise=Laplace(1.1)), leakage(2.0, glm.Poisson(), Gaussian(0.4))),
}


@pytest.mark.parametrize("unlike", UNLIKE)
def test_the_total_of_two_unlike_releases_is_their_joint_leakage(place, unlike):
    first, second = UNLIKE[unlike]()
    joint = glm.compose([first, second]).group(IDS, tied=TIED)
    with place.create() as ledger:
        ledger.book(booking("may", person_dose(first)))
        ledger.book(booking("june", person_dose(second)))
        totals_squared = squares(ledger)
        quadrature = person_dose(first, blocks=False) + person_dose(second, blocks=False)
        for person, sum_of_both in zip(quadrature.ids, quadrature.amounts, strict=True):
            assert joint[person] ** 2 - 1e-12 <= totals_squared[person] <= joint[person] ** 2 + 1e-12 + NANO
            assert totals_squared[person] <= sum_of_both + 2 * NANO
        # The two rules differ: at least one person's exact total is clearly below quadrature.
        assert (
            min(
                totals_squared[person] / value for person, value in zip(quadrature.ids, quadrature.amounts, strict=True)
            )
            < 0.98
        )
        (totals,) = ledger.totals()
        assert sorted(totals.readings**2) == pytest.approx(sorted(totals_squared.values()), rel=1e-14)
        assert {ledger.person(person).totals[0].standing for person in totals_squared} == {Standing.EXACT}


def test_the_total_is_the_norm_of_the_jacobians_stacked_as_refits_give_them(file_place):
    """Central differences of the refitted weights in every unknown of a person with two rows and a tied column."""
    X, y = table()
    rows = [k for k, person in enumerate(IDS) if person == "p1"]

    def weights(l2, move, size):
        Z, t = X.copy(), y.copy()
        if move[0] == "tied":
            Z[rows, 2] += size
        elif move[1] == "label":
            t[move[0]] += size
        else:
            Z[move[0], move[1]] += size
        return glm.fit(Z, t, glm.Squared(), l2, intercept=True).w

    moves = [(row, column) for row in rows for column in (0, 1, "label")] + [("tied",)]
    stacked = np.vstack(
        [
            np.column_stack([(weights(l2, m, 1e-5) - weights(l2, m, -1e-5)) / 2e-5 for m in moves]) / 0.7
            for l2 in (0.01, 5.0)
        ]
    )
    with file_place.create() as ledger:
        for l2 in (0.01, 5.0):
            ledger.book(booking(f"l2 {l2}", person_dose(leakage(l2))))
        assert squares(ledger)["p1"] == pytest.approx(np.linalg.norm(stacked, 2) ** 2, rel=1e-7)


def test_a_tied_label_is_one_unknown_of_the_block_and_the_joint_total_is_that_of_refits():
    """The label of all rows of a person moved together, by central differences of the refitted weights."""
    X, y = table()
    rows = [k for k, person in enumerate(IDS) if person == "p1"]
    y[rows] = y[rows[0]]
    fits = [glm.fit(X, y, glm.Squared(), l2, intercept=True) for l2 in (0.01, 5.0)]
    leaks = [glm.measure(fit, X, y, Gaussian(0.7)) for fit in fits]

    def weights(l2, column, size):
        Z, t = X.copy(), y.copy()
        if column is None:
            t[rows] += size
        else:
            Z[column] += size
        return glm.fit(Z, t, glm.Squared(), l2, intercept=True).w

    moves = [(row, j) for row in rows for j in range(X.shape[1])] + [None]
    stacked = np.vstack(
        [
            np.column_stack([(weights(l2, m, 1e-5) - weights(l2, m, -1e-5)) / 2e-5 for m in moves]) / 0.7
            for l2 in (0.01, 5.0)
        ]
    )
    all_blocks = [glm.fisher_blocks(leak, IDS, np.column_stack([X, y]), tied_target=True) for leak in leaks]
    person_blocks = [blocks[list(dict.fromkeys(IDS)).index("p1")] for blocks in all_blocks]
    assert person_blocks[0].unknowns[-1] == "*/label"
    assert person_blocks[0].identity == person_blocks[1].identity
    joint = np.linalg.eigvalsh(person_blocks[0].matrix + person_blocks[1].matrix)[-1]
    assert joint == pytest.approx(np.linalg.norm(stacked, 2) ** 2, rel=1e-7)
    assert person_blocks[0].norm == pytest.approx(leaks[0].group(IDS, tied_target=True)["p1"] ** 2, rel=1e-9)


def test_k_releases_with_the_same_settings_follow_the_law_of_square_roots(place):
    monthly = person_dose(leakage())
    with place.create() as ledger:
        for month in range(5):
            ledger.book(booking(f"month {month}", monthly))
        totals_squared = squares(ledger)
        for person, value in zip(monthly.ids, monthly.amounts, strict=True):
            assert 5 * value - 1e-12 <= totals_squared[person] <= 5 * value + 5 * NANO


def test_a_release_without_blocks_is_added_in_quadrature_on_top(place):
    first, second, third = leakage(0.01), leakage(5.0), leakage(1.0)
    joint = glm.compose([first, second]).group(IDS, tied=TIED)
    with place.create() as ledger:
        ledger.book(booking("may", person_dose(first)))
        ledger.book(booking("june", person_dose(third, blocks=False)))
        ledger.book(booking("july", person_dose(second)))
        totals_squared, without_blocks = squares(ledger), third.group(IDS, tied=TIED)
        for person in totals_squared:
            exact = joint[person] ** 2 + without_blocks[person] ** 2
            assert exact - 1e-12 <= totals_squared[person] <= exact + 1e-12 + 2 * NANO
            # Never below the joint leakage of the three.
            assert totals_squared[person] >= glm.compose([first, second, third]).group(IDS, tied=TIED)[person] ** 2
        assert ledger.person("p1").totals[0].standing is Standing.UPPER_BOUND


def test_a_person_whose_rows_changed_has_other_unknowns_and_is_summed(place):
    X, y = table()
    Z = X.copy()
    Z[0, 1] += 0.25  # p0 alone
    first, second = leakage(0.01), leakage(5.0, X=Z, y=y)
    with place.create() as ledger:
        ledger.book(booking("may", person_dose(first)))
        ledger.book(booking("june", person_dose(second, Z, y)))
        totals = {person: ledger.person(person).totals[0] for person in ("p0", "p1")}
        sums = {
            person: first.group(IDS, tied=TIED)[person] ** 2 + second.group(IDS, tied=TIED)[person] ** 2
            for person in totals
        }
        assert totals["p0"].reading ** 2 == pytest.approx(sums["p0"], abs=2 * NANO)
        assert totals["p0"].standing is Standing.UPPER_BOUND
        assert totals["p1"].reading ** 2 < sums["p1"] - 100 * NANO
        assert totals["p1"].standing is Standing.EXACT


@pytest.mark.parametrize(
    "other",
    [
        FisherBlock(("0/age", "0/ill"), np.diag([0.0, 0.04])),
        FisherBlock(("0/age", "0/label"), np.diag([0.0, 0.04]), b"x"),
    ],
)
def test_other_names_or_another_place_are_other_unknowns(file_place, other):
    first = FisherBlock(("0/age", "0/label"), np.diag([0.04, 0.0]))
    with file_place.create() as ledger:
        for name, block in (("may", first), ("june", other)):
            ledger.book(booking(name, Dose(FISHER, "person", ("ann",), [0.04], fisher_blocks=(block,))))
        assert ledger.person("ann").totals[0].reading ** 2 == pytest.approx(0.08, abs=2 * NANO)


def apart(direction, *, blocks=True, value=0.04):
    matrix = np.zeros((3, 3))
    matrix[direction, direction] = value
    block = FisherBlock(("0/a", "0/b", "0/label"), matrix)
    return Dose(FISHER, "person", ("ann", "bob"), [value, value], fisher_blocks=(block, block) if blocks else ())


def test_a_limit_is_compared_with_the_exact_total(place):
    """Two releases in orthogonal directions leak 0.2 together; in quadrature it would be 0.283."""
    with place.create("fil=0.21") as ledger:
        ledger.book(booking("may", apart(0)))
        without_blocks = booking("plain", apart(1, blocks=False))
        assert ledger.preview(without_blocks)[0].totals[0] == pytest.approx(np.sqrt(0.08), abs=1e-8)
        with pytest.raises(OverBudget):
            ledger.book(without_blocks)
        assert ledger.preview(booking("june", apart(1))) == ()
        assert ledger.book(booking("june", apart(1))).fresh
        assert ledger.person("ann").totals[0].reading == pytest.approx(0.2, abs=1e-8)
        (stop,) = ledger.preview(booking("july", apart(1)))
        assert stop.people == 2
        assert stop.totals == pytest.approx([np.sqrt(0.08)] * 2, abs=1e-8)
        # The reported share does fit: all noise is scaled by it, and the blocks with it.
        assert ledger.preview(booking("july", apart(1, value=0.04 * stop.share * (1 - 1e-6)))) == ()
        (totals,) = ledger.totals()
        assert totals.passing == 0


def test_a_released_total_never_falls(file_place):
    rng = np.random.default_rng(1)
    with file_place.create() as ledger:
        before = 0.0
        for k in range(12):
            J = rng.normal(size=(2, 4)) * 0.1
            block = FisherBlock(tuple("abcd"), (J.T @ J + (J.T @ J).T) / 2)
            ledger.book(booking(f"release {k}", Dose(FISHER, "person", ("ann",), [block.norm], fisher_blocks=(block,))))
            now = ledger.person("ann").totals[0].reading
            assert now >= before
            before = now


def test_an_erased_person_is_not_in_the_blocks_either(place):
    with place.create() as ledger:
        ledger.book(booking("may", apart(0)))
        ledger.erase("ann")
        assert not ledger.person("ann").known
        assert ledger.verify().entries == 3
        ledger.book(booking("june", apart(0)))
        assert ledger.person("ann").totals[0].reading == pytest.approx(0.2, abs=1e-8)
        assert ledger.person("bob").totals[0].reading == pytest.approx(np.sqrt(0.08), abs=1e-8)


def test_the_same_release_again_is_recognised_although_the_last_digits_of_its_blocks_differ(place):
    with place.create() as ledger:
        first = ledger.book(booking("may", apart(0)))
        dose_with_blocks = apart(0)
        moved = [np.nextafter(b.matrix, 1) for b in dose_with_blocks.fisher_blocks]
        nearly = replace(
            dose_with_blocks, fisher_blocks=tuple(FisherBlock(("0/a", "0/b", "0/label"), m) for m in moved)
        )
        again = ledger.book(booking("may", nearly))
        assert not again.fresh
        assert again.artefact == first.artefact
        assert ledger.person("ann").totals[0].reading == pytest.approx(0.2, abs=1e-8)
        assert ledger.verify().entries == 2


def test_two_ledgers_mark_the_same_unknowns_differently(new_place, tmp_path):
    """A mark is keyed: with the database alone, likely rows cannot be tried against it."""
    marks = []
    for name in ("one", "two"):
        where = replace(new_place("sqlite"), target=str(tmp_path / f"{name}.db"), keys=tmp_path / f"{name}.keys")
        with where.create() as ledger:
            ledger.book(booking("may", apart(0)))
        with closing(sqlite3.connect(where.target)) as connection:
            marks.append(connection.execute("SELECT DISTINCT unknowns FROM dosimeter_block").fetchall())
    assert [len(mark) for mark in marks] == [1, 1]
    assert marks[0] != marks[1]


def run(place, *statements, **values):
    url = place.target if "://" in place.target else f"sqlite:///{place.target}"
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        for statement in statements:
            query = text(statement)
            for name in values:
                query = query.bindparams(bindparam(name, type_=LargeBinary))
            connection.execute(query, values)
    engine.dispose()


def stored(place):
    url = place.target if "://" in place.target else f"sqlite:///{place.target}"
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.connect() as connection:
        rows = connection.execute(text("SELECT pseudonym, data FROM dosimeter_block ORDER BY pseudonym")).all()
    engine.dispose()
    return [(bytes(person), bytes(data)) for person, data in rows]


def test_every_flipped_byte_of_a_block_is_detected(place):
    with place.create() as ledger:
        ledger.book(booking("may", apart(0)))
        (person, data), _ = stored(place)
        for k in range(0, len(data), 3 if place.kind == "sqlite" else 17):
            altered = bytes([*data[:k], data[k] ^ (1 << k % 8), *data[k + 1 :]])
            run(place, "UPDATE dosimeter_block SET data = :data WHERE pseudonym = :who", data=altered, who=person)
            with pytest.raises(Tampered, match="blocks of entry 2"):
                ledger.verify()
        run(place, "UPDATE dosimeter_block SET data = :data WHERE pseudonym = :who", data=data, who=person)
        assert ledger.verify().entries == 2


def test_a_block_that_is_missing_or_moved_is_detected(place):
    with place.create() as ledger:
        ledger.book(booking("may", apart(0)))
        (first, _), (second, _) = stored(place)
        run(place, "DELETE FROM dosimeter_block WHERE pseudonym = :who", who=first)
        with pytest.raises(Tampered, match="blocks of entry 2"):
            ledger.verify()
        ledger.book(booking("june", apart(1, blocks=False)))
        run(place, "UPDATE dosimeter_block SET part = 2 WHERE pseudonym = :who", who=second)
        with pytest.raises(Tampered, match="blocks of entry 2"):
            ledger.verify()


def test_a_block_that_is_not_a_matrix_is_never_read_as_one(place):
    with place.create() as ledger:
        ledger.book(booking("may", apart(0)))
        intact = stored(place)[0][1]
        for bad in (b"", b"\x00" * 12, intact[:-8], np.full(9, np.nan).tobytes(), np.zeros(4).tobytes()):
            run(place, "UPDATE dosimeter_block SET data = :data", data=bad)
            if len(bad) == 32:
                with pytest.raises(Tampered, match="differ in size"):
                    ledger.book(booking("june", apart(1)))
                continue
            for work in (lambda: ledger.person("ann"), ledger.totals, lambda: ledger.book(booking("june", apart(1)))):
                with pytest.raises(Tampered, match="block"):
                    work()


def test_a_ledger_without_a_table_of_blocks_is_migrated_and_keeps_its_digests(place):
    without_blocks = replace(of_all_kinds("may"), doses=(of_all_kinds("may").doses[0],))
    with place.create("fil=3") as ledger:
        ledger.book(without_blocks)
        before = ledger.export()
    run(place, "DROP TABLE dosimeter_block", "UPDATE dosimeter_ledger SET version = 1")
    with place.open() as ledger:
        assert ledger.export() == before
        assert ledger.verify().entries == 2
        ledger.book(booking("june", apart(0)))
        ledger.book(booking("july", apart(1)))
        assert ledger.person("ann").totals[0].reading == pytest.approx(0.2, abs=1e-8)
        assert ledger.verify().entries == 4
        assert not any("blocks" in part for part in before["entries"][1]["parts"])


def test_blocks_that_do_not_belong_to_the_dose_are_refused():
    block = FisherBlock(("0/a",), [[0.04]])
    with pytest.raises(Refusal, match="does not match a dose"):
        Dose(FISHER, "person", ("ann",), [0.05], fisher_blocks=(block,))
    with pytest.raises(Refusal, match="does not match a dose"):
        Dose(FISHER, "person", ("ann",), [0.04], fisher_blocks=(FisherBlock(("0/a", "0/b"), np.diag([0.04, -0.01])),))
    with pytest.raises(Refusal, match="one block per id or none"):
        Dose(FISHER, "person", ("ann", "bob"), [0.04, 0.04], fisher_blocks=(block,))
    with pytest.raises(Refusal, match="has none"):
        Dose(MEMBERSHIP, "person", ("ann",), [0.04], fisher_blocks=(block,))
    assert (Dose(FISHER, "person", ("ann",), [0.04], fisher_blocks=(block,)) + apart(0)).fisher_blocks == ()


@pytest.mark.parametrize("matrix", [[[1.0, 0.5], [0.4, 1.0]], [[np.nan, 0.0], [0.0, 1.0]], [[1.0]], np.ones((2, 3))])
def test_only_an_information_matrix_is_a_block(matrix):
    with pytest.raises(Refusal, match="finite symmetric matrix"):
        FisherBlock(("0/a", "0/b"), matrix)


def test_blocks_too_large_to_store_are_refused_before_they_are_computed():
    with pytest.raises(Refusal, match="1 to 200 unknowns"):
        FisherBlock(tuple(map(str, range(201))), np.eye(201))
    X, y = np.random.default_rng(0).normal(size=(300, 2)), np.arange(300.0)
    leak = leakage(X=X, y=y)
    values = np.column_stack([X, y])
    with pytest.raises(Refusal, match="a person has 201 unknowns"):
        glm.fisher_blocks(leak, ["ann"] * 67 + list(range(233)), values)
    wide = np.random.default_rng(0).normal(size=(250, 190))
    leak = leakage(1.0, X=wide, y=y[:250])
    with pytest.raises(Refusal, match="take 70 MB"):
        glm.fisher_blocks(leak, list(range(250)), np.column_stack([wide, y[:250]]))


def test_an_exact_release_has_no_blocks():
    from dosimeter.core.noise import no_noise

    with pytest.raises(CannotMeasure, match="exact release"):
        glm.fisher_blocks(leakage(noise=no_noise), IDS, np.column_stack(table()))


def test_equal_matrices_total_their_amounts_and_not_a_nano_more():
    both = SummedFisherBlocks(np.diag([0.04, 0.01]), 40_000_000) + SummedFisherBlocks(np.diag([0.04, 0.01]), 40_000_000)
    assert (both.amount, both.quadrature) == (80_000_000, 80_000_000)


def test_what_is_left_under_a_limit_is_counted_from_the_exact_total(file_place):
    with file_place.create("fil=0.21") as ledger:
        ledger.book(booking("may", apart(0)))
        ledger.book(booking("june", apart(1)))
        (stop,) = ledger.preview(booking("july", apart(1)))
        assert stop.share == pytest.approx((0.21**2 - 0.04) / 0.04, rel=1e-6)
        assert stop.room == pytest.approx(np.sqrt(0.21**2 - 0.04), rel=1e-6)


def test_a_limit_is_compared_with_the_sum_if_the_unknowns_differ(file_place):
    elsewhere = FisherBlock(("0/a", "0/b", "0/label"), np.diag([0.0, 0.04, 0.0]), b"another row")
    with file_place.create("fil=0.21") as ledger:
        ledger.book(booking("may", apart(0)))
        with pytest.raises(OverBudget):
            ledger.book(booking("june", Dose(FISHER, "person", ("ann",), [0.04], fisher_blocks=(elsewhere,))))


def test_blocks_of_one_account_save_nothing_in_another(file_place):
    with file_place.create() as ledger:
        ledger.book(booking("may", apart(0), replace(apart(1), measured_in="standard deviations")))
        ledger.book(booking("june", apart(0), replace(apart(0), measured_in="standard deviations")))
        own_units, deviations = ledger.person("ann").totals
        assert own_units.reading**2 == pytest.approx(0.08, abs=2 * NANO)
        assert deviations.reading**2 == pytest.approx(0.04, abs=2 * NANO)


def test_a_block_under_another_pseudonym_is_detected_even_in_the_same_order(place):
    with place.create() as ledger:
        ledger.book(booking("may", apart(0)))
        person = stored(place)[1][0]
        other = (int.from_bytes(person, "big") + 1).to_bytes(len(person), "big")
        run(place, "UPDATE dosimeter_block SET pseudonym = :other WHERE pseudonym = :who", other=other, who=person)
        with pytest.raises(Tampered, match="blocks of entry 2"):
            ledger.verify()


def test_the_same_cells_in_other_units_are_other_unknowns():
    leak, values = leakage(), np.column_stack(table())
    same, again, other = (glm.fisher_blocks(leak, IDS, values, units=units) for units in ([1.0], [1.0], [2.0]))
    assert [b.identity for b in same] == [b.identity for b in again]
    assert not {b.identity for b in same} & {b.identity for b in other}
    assert len({b.identity for b in same}) == len(same)
