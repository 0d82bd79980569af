"""A release of a table that is read in blocks has the figures of the table in memory, and its noise is drawn once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import skops.io as sio

import dosimeter as dm
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.engines import memory
from dosimeter.glm.blocks import block_folds
from dosimeter.glm.releases import folds
from dosimeter.workflows import drawn_release, fix_blocks
from tests.engines.tables import assert_same_figures, people, written
from tests.engines.test_measure_blocks import ALL, BOUNDS, but

LOSSES = {
    "squared": "cost",
    "logistic": "ill",
    "poisson": "stays",
    "negative-binomial": "stays",
    "gamma": "price",
    "tweedie": "price",
}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of 128 rows, so that a row group has several and people cross their ends."""
    monkeypatch.setattr(memory, "MOST_ROWS", 128)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    columns = people(1200)
    columns["price"] = np.exp(columns["cost"])
    return written(tmp_path_factory.mktemp("blocks") / "people.parquet", columns)


def others(target: str, person: str | None = None) -> tuple[str, ...]:
    return tuple(name for name in (*ALL, "price") if name not in (target, person))


def without_draw(result: Any) -> Any:
    """The result without what depends on the draw, or on kinds of noise that are tried in memory only."""
    choice = result.choice.model_copy(update={"left_out": {}})
    return result.with_fields(score=result.score.model_copy(update={"after": 0.0}), choice=choice)


def both(table: Any, **options: Any) -> tuple[Any, Any]:
    """The release in memory and over blocks, compared figure by figure."""
    options = {"noise_shape": "none", "even_if_useless": True, **options}
    whole = dm.fix(table, engine="memory", **options)
    blocks = dm.fix(table, engine="blocks", **options)
    assert_same_figures(without_draw(whole.result), without_draw(blocks.result))
    return whole, blocks


@pytest.mark.parametrize("scaler", ["total", "held"])
@pytest.mark.parametrize("loss", LOSSES)
def test_every_figure_is_that_of_the_table_in_memory(table: Path, loss: str, scaler: str) -> None:
    target, l2 = LOSSES[loss], 0.1 if loss == "negative-binomial" else None
    both(table, target=target, loss=loss, exclude=others(target), scaler=scaler, max_dose=0.5, l2=l2)


@pytest.mark.parametrize("person", ["adjacent", "scattered"])
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_a_person_has_the_dose_of_the_table_in_memory(table: Path, loss: str, person: str) -> None:
    target = LOSSES[loss]
    whole, blocks = both(table, target=target, loss=loss, person=person, exclude=others(target, person), max_dose=1.0)
    assert whole.doses[0].ids == blocks.doses[0].ids
    np.testing.assert_allclose(whole.doses[0].figures, blocks.doses[0].figures, rtol=1e-9)
    assert blocks.recipe == whole.recipe


def test_declared_bounds_and_a_stated_scale(table: Path) -> None:
    bounds = {name: spec for name, spec in BOUNDS.items() if name not in but("ill")}
    # Not 0.3: one of the limits around it then asks for a noise of exactly 1, a rung of the public ladder, and the last
    # bit of a sum decides between this rung and the next.
    both(table, target="ill", person="scattered", exclude=others("ill", "scattered"), bounds=bounds, scale=0.35)


@pytest.mark.parametrize("noise", ["laplace", "gumbel", "logistic"])
def test_other_laws_are_scored_by_the_same_simulated_releases(table: Path, noise: str) -> None:
    both(table, target="ill", exclude=others("ill"), noise=noise, max_dose=1.0)


def test_rows_with_gaps_are_left_out_and_many_people_fall_into_the_same_folds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = people(1200)
    age = columns["age"].copy()
    age[[3, 700, 701, 1199]] = np.nan
    age[640:768] = np.nan  # a whole block
    path = written(tmp_path / "gaps.parquet", {**columns, "age": age})
    monkeypatch.setattr(folds, "MANY", 100)
    monkeypatch.setattr("dosimeter.models.block_release.MANY", 100)
    both(path, target="ill", exclude=but("ill"), missing="drop", max_dose=1.0)
    both(path, target="ill", person="scattered", exclude=but("ill", "scattered"), missing="drop", max_dose=1.0)


def test_the_released_file_is_a_pipeline_whose_predictions_are_those_of_its_weights(table: Path) -> None:
    import pandas as pd

    release = dm.fix(table, "cost", exclude=others("cost"), max_dose=1.0, engine="blocks", even_if_useless=True)
    model = sio.loads(release.artefact, trusted=sio.get_untrusted_types(data=release.artefact))
    frame = pd.read_parquet(table)
    residual = frame["cost"] - model.predict(frame)
    r2 = 1 - float(np.sum(residual**2) / np.sum((frame["cost"] - frame["cost"].mean()) ** 2))
    assert release.result.score.after == pytest.approx(r2, rel=1e-9)


@pytest.mark.parametrize("person", [None, "who"])
@pytest.mark.parametrize("form", ["text", "numbers"])
def test_a_released_file_reads_codes_as_the_file_of_its_training_holds_them(
    form: str, person: str | None, tmp_path: Path
) -> None:
    import pandas as pd

    rng = np.random.default_rng(8)
    x, place = rng.normal(size=1200), rng.integers(1, 4, 1200)
    frame = pd.DataFrame({"x": x, "code": place.astype(str) if form == "text" else place})
    frame = frame.assign(who=rng.permutation(1200) // 2, cost=x + 3.0 * place**2)
    frame.to_parquet(tmp_path / "codes.parquet")
    who: dict[str, Any] = {"exclude": "who"} if person is None else {"person": person}
    options = {"target": "cost", "categorical": "code", "scale": 1e-9, "l2": 1e-9, **who}
    for engine in ("memory", "blocks"):
        made = dm.fix(tmp_path / "codes.parquet", engine=engine, noise_shape="none", **options)
        np.testing.assert_allclose(made.model.predict(frame[["x", "code"]]), frame["cost"], rtol=1e-4)


def test_what_is_for_tables_in_memory_is_refused(table: Path) -> None:
    options: dict[str, Any] = {"target": "cost", "exclude": others("cost"), "max_dose": 1.0, "engine": "blocks"}
    for more in ({"equalise": True}, {"noise_shape": "hessian"}, {"missing": "impute"}, {"loss": "huber"}):
        with pytest.raises(CannotMeasure):
            dm.fix(table, **options, **more)
    with pytest.raises(Refusal, match="no scale brings"):
        dm.fix(table, **{**options, "max_dose": 1e-6})


def test_nothing_is_drawn_for_a_model_that_may_not_leave(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("noise was drawn")

    monkeypatch.setattr(fix_blocks, "draw_once", refuse)
    options: dict[str, Any] = {"target": "cost", "exclude": others("cost"), "engine": "blocks"}
    useless = dm.fix(table, max_dose=0.05, **options)
    assert useless.result.useless
    assert not useless.artefact
    assert useless.result.score.after is None
    above = dm.fix(table, max_dose=0.1, scale=0.001, **options)
    assert not above.result.within
    assert not above.artefact


def test_a_checkpoint_keeps_the_draw_and_no_second_one_is_made(table: Path, tmp_path: Path) -> None:
    options: dict[str, Any] = {"target": "ill", "exclude": others("ill"), "max_dose": 3.0, "engine": "blocks"}
    first = dm.fix(table, checkpoint=tmp_path / "work", **options)
    again = dm.fix(table, checkpoint=tmp_path / "work", **options)
    assert first.artefact == again.artefact
    assert first.noise_fingerprint == again.noise_fingerprint
    assert first.recipe == again.recipe
    assert first.result.score == again.result.score
    assert "earlier run" in again.result.remarks[-1]
    fresh = dm.fix(table, **options)
    assert fresh.artefact != first.artefact
    with pytest.raises(Refusal, match="other options"):
        dm.fix(table, checkpoint=tmp_path / "work", **{**options, "max_dose": 4.0})


def test_of_two_runs_that_draw_at_once_in_one_checkpoint_both_release_the_first_draw(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = {"target": "ill", "exclude": others("ill"), "max_dose": 3.0, "engine": "blocks"}
    options["checkpoint"] = tmp_path / "work"
    build, meanwhile = drawn_release._pipeline, []

    def draw_meanwhile(*arguments: Any) -> Any:  # after this run drew, and before it kept the draw
        monkeypatch.setattr(drawn_release, "_pipeline", build)
        meanwhile.append(dm.fix(table, **options))
        return build(*arguments)

    monkeypatch.setattr(drawn_release, "_pipeline", draw_meanwhile)
    mine = dm.fix(table, **options)
    assert mine.artefact == meanwhile[0].artefact
    assert mine.noise_fingerprint == meanwhile[0].noise_fingerprint
    assert "earlier run" in mine.result.remarks[-1]


def test_frames_that_are_not_in_memory_are_released_as_the_file_is(table: Path, tmp_path: Path) -> None:
    import polars as pl
    import pyarrow.dataset as ds

    options: dict[str, Any] = {"target": "ill", "exclude": others("ill"), "max_dose": 3.0, "even_if_useless": True}
    expected = without_draw(dm.fix(table, engine="blocks", **options).result)
    for frame in (pl.scan_parquet(table), ds.dataset(table)):
        result = without_draw(dm.fix(frame, **options).result)
        assert result.remarks == expected.remarks
        assert_same_figures(expected.with_fields(remarks=[]), result.with_fields(remarks=[]))


def test_all_but_the_weights_of_the_file_is_the_same_for_a_neighbouring_table(table: Path, tmp_path: Path) -> None:
    from tests.lattice import skeleton

    options: dict[str, Any] = {"target": "ill", "max_dose": 3.0, "even_if_useless": True, "engine": "blocks"}
    columns = people(1200)
    columns["age"] = columns["age"].copy()
    columns["age"][17] += 1.0
    neighbour = written(tmp_path / "neighbour.parquet", columns)
    first = dm.fix(table, exclude=others("ill"), **options)
    assert skeleton(first.artefact) == skeleton(dm.fix(neighbour, exclude=but("ill"), **options).artefact)


def test_the_engine_of_a_cluster_has_the_same_figures(table: Path) -> None:
    pytest.importorskip("dask")
    options: dict[str, Any] = {"target": "ill", "exclude": others("ill"), "max_dose": 3.0, "even_if_useless": True}
    one, other = (without_draw(dm.fix(table, engine=name, **options).result) for name in ("blocks", "dask"))
    assert_same_figures(one.with_fields(remarks=[]), other.with_fields(remarks=[]))


def test_a_file_that_cannot_be_read_while_folds_are_fitted_is_refused_and_no_reason_to_release(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had counted as "nothing could be scored", and a model that no one had scored was released."""
    damaged = Refusal("people.parquet, row group 1: cannot be read as Parquet: write it again")

    def fail(*arguments: Any, **options: Any) -> Any:
        raise damaged

    monkeypatch.setattr(block_folds, "scalar_sums", fail)
    with pytest.raises(Refusal, match="row group 1"):
        dm.fix(table, "cost", engine="blocks", exclude=others("cost"), scale=1000.0)
