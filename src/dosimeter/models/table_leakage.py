"""Leakage by the names of a table: the figures of `glm` by source column, person and group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from dosimeter import glm
from dosimeter.adapters.features import Design
from dosimeter.core.arrays import FloatArray
from dosimeter.core.dose import Dose
from dosimeter.core.errors import Refusal
from dosimeter.core.location import advice
from dosimeter.core.noise import Gaussian
from dosimeter.core.notion import FISHER, Standing
from dosimeter.core.text import safe_text
from dosimeter.glm.jacobians.scalar_jacobian import ScalarJacobian
from dosimeter.glm.scalers.fitted_scaler import frozen_of
from dosimeter.glm.wide.wide_leakage import WideLeakage
from dosimeter.models.fitted_scaler import floor_for_law, floor_remark
from dosimeter.models.wording import cell_sentence
from dosimeter.tables.persons import Persons
from dosimeter.tables.row_arguments import ids_of
from dosimeter.tables.table import like, series_like

WORK = 3e7
"""Multiplications up to which figures at another noise are computed, not bounded: a tenth of a second."""


@dataclass(frozen=True, eq=False)
class TableLeakage:
    """η by source column, person and group; frames come back in the caller's kind, index and row order kept.

    Every figure is about an attacker who knows everything else in the table. As private as the table.

    >>> from sklearn.linear_model import Ridge
    >>> import dosimeter as dm
    >>> X, y = np.array([[1.0], [2.0], [3.0]]), np.array([1.0, 2.0, 4.0])
    >>> leak = dm.measure(Ridge(alpha=0.0, fit_intercept=False).fit(X, y), X, y, noise=dm.Gaussian(0.5))
    >>> leak.labels.round(4)
    array([0.1429, 0.2857, 0.4286])
    >>> leak.cells.shape, leak.notes
    ((3, 1), ())
    """

    leak: glm.Leakage
    """The reading on arrays: one column for each unknown of `design.blocks`."""
    fit: Any
    """The exact fit: `glm.Fit`, or another solved estimator (`adapters/solved_equations.py`)."""
    """The exact minimiser that was measured."""
    design: Design
    frame: Any
    """The caller's frame: the kind and the index of what comes back."""
    target: str
    """Name of the label."""
    target_unit: Any
    """The change of the label that one unit of the figures stands for."""
    measured_in: str
    """'own units' or 'standard deviations'."""
    ids: tuple[Hashable, ...] | None = None
    """(n,) the person of each row."""
    tied: tuple[str, ...] = ()
    """Source columns that are one unknown for all rows of a person."""
    tied_target: bool = False
    """Whether the target is one unknown per person too."""
    not_covered: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    approximations: tuple[str, ...] = ()
    """Why the figures are estimates; () if they are not."""
    assumptions: tuple[str, ...] = ()
    """What is taken as known without a check."""
    floor: glm.Leakage | None = None
    """What a scaler fitted on the table leaves at any noise; None if none was fitted."""
    whole: glm.Leakage | None = None
    """Of a held scaler: the leakage through it, where that is derived; None otherwise."""
    scaler: str = "held"
    """Whether the figures go through that scaler: 'total', or 'held'."""

    # --- what it is ---

    @property
    def noise(self) -> Any:
        """The noise on the released coefficients."""
        return self.leak.noise

    @property
    def notes(self) -> tuple[str, ...]:
        """What is not covered, why figures are estimates, then what else the reader must know."""
        return self.not_covered + self.approximations + self.remarks

    @property
    def standing(self) -> Standing:
        """Unaccounted if a choice made from the data is held fixed, otherwise an estimate or exact."""
        if self.not_covered:
            return Standing.UNACCOUNTED
        if self.approximations or self.design.estimated:
            return Standing.ESTIMATE
        if isinstance(self.leak, WideLeakage) and not self.leak.reads_tied(self._tied):
            return Standing.UPPER_BOUND
        return getattr(self.leak, "standing", Standing.EXACT)  # a sparse or wide table may have bounds

    @property
    def columns(self) -> tuple[str, ...]:
        """The source columns, in the table's order."""
        return tuple(self.design.blocks)

    @property
    def numbers(self) -> tuple[str, ...]:
        """The source columns that hold numbers, which have a unit."""
        return tuple(name for name in self.columns if self._is_number(name))

    @cached_property
    def unit_scale_eta(self) -> FloatArray:
        """(people,) the figure of each person, or row; for an exact release at noise of scale 1, which ranks them."""
        return self._figures_by_person(self.leak)

    def _figures_by_person(self, leak: glm.Leakage) -> FloatArray:
        if self.ids is None:
            return leak.unscaled_examples
        return np.array(list(replace(leak, has_noise=True).group(self.ids, **self.shared).values()))

    @cached_property
    def left(self) -> FloatArray:
        """(people,) what a fitted scaler leaves of each figure at any noise; zero if none was fitted."""
        return np.zeros(len(self.unit_scale_eta)) if self.floor is None else self._figures_by_person(self.floor)

    @cached_property
    def counted(self) -> FloatArray:
        """(people,) what a limit is compared with: beside a held scaler the weights move with it, and it leaves a part.

        The sum counts both where the figure through the scaler is not derived.
        """
        if self.scaler != "held" or self.floor is None:
            return self.unit_scale_eta
        beside = self.unit_scale_eta + self.left
        return beside if self.whole is None else np.maximum(beside, self._figures_by_person(self.whole))

    @cached_property
    def falling(self) -> FloatArray:
        """(people,) what of `counted` falls as 1/scale, at most; the rest is `left`."""
        return (
            self.unit_scale_eta
            if self.whole is None
            else np.maximum(self.unit_scale_eta, self._figures_by_person(self.whole))
        )

    def with_floor_remark(self) -> TableLeakage:
        """The same, with a remark on what the scaler leaves."""
        if self.floor is None:
            return self
        unit = "row" if self.ids is None else "person"
        highest = float(self._figures_by_person(self.floor).max())
        return replace(self, remarks=(*self.remarks, floor_remark(self.design, highest, self.scaler, unit)))

    def figures_at(self, law: Any, scale: float) -> FloatArray:
        """(people,) figures at another noise; for a fitted scaler on a large table an upper bound."""
        noise = law(scale)
        known = self.noise if self.leak.has_noise else Gaussian(1.0)
        share = noise.fisher_information / known.fisher_information
        if self.floor is None or self.scaler == "held":
            return np.asarray(self.unit_scale_eta * np.sqrt(share))
        if self._work <= WORK:
            options = {**self._options, "noise": noise, "scaled": self.design.fitted}
            return self._figures_by_person(
                self.design.read(glm.measure(self.fit, self.design.X, self.fit.y, **options))
            )
        return self._upper_bounds(law, type(known), share)

    def _upper_bounds(self, law: Any, known: Any, share: float) -> FloatArray:
        """With t = 1/scale² a figure's square is λmax(tG + Φ), Φ the floor: convex in t, so it lies below the chord
        from t = 0 to the known noise, and beyond that it grows no faster than t."""
        left = self.left if known is law else self._floor_for_law(law)
        if not (law.symmetric and known.symmetric):  # a mean moves with the scaler: norms add, squares do not
            return np.asarray(np.sqrt(share) * (self.unit_scale_eta + self.left) + left)
        rest = left**2 * (max(0.0, 1.0 - share) if known is law else 1.0)
        return np.asarray(np.sqrt(share * self.unit_scale_eta**2 + rest))

    @property
    def _work(self) -> int:
        """Multiplications of one exact pass behind a fitted scaler."""
        return self.leak.n * (self.leak.m + 1) ** 2 * (self.leak.m + 10) * (1 if self.ids is None else 4)

    @property
    def _options(self) -> dict[str, Any]:
        unit = self.design.spread if self.measured_in == "standard deviations" else np.ones(1)
        return {
            "include_target": self.leak.include_target,
            "input_map": self.design.input_map(unit),
            "target_unit": self.target_unit,
        }

    @cached_property
    def at_one(self) -> FloatArray:
        """(people,) figures at Fisher information 1 with a fitted scaler held fixed: they fall as 1/scale."""
        held = self.floor is None or self.scaler == "held"
        figures = self.unit_scale_eta if held else self._figures_by_person(frozen_of(self.leak))
        return figures if not self.leak.has_noise else figures / np.sqrt(self.noise.fisher_information)

    def _floor_for_law(self, law: Any) -> FloatArray:
        floor = floor_for_law(self.leak, self.design, self.fit, self._options, law)
        return np.zeros(len(self.unit_scale_eta)) if floor is None else self._figures_by_person(floor)

    @property
    def shared(self) -> dict[str, Any]:
        """What is one unknown for all rows of a person, as `glm` takes it."""
        return {"tied": self._tied, "tied_target": self.tied_target}

    # --- by row ---

    @cached_property
    def examples(self) -> Any:
        """(n,) η of each row on its own; the rows of one person together are in `persons`."""
        return self._series(self.leak.examples)

    @cached_property
    def labels(self) -> Any:
        """(n,) η of each row's label; a tied label has the person's."""
        return self._series(self._label_eta)

    @cached_property
    def cells(self) -> Any:
        """(n, columns) η of each cell; of a category its largest step, of a tied column the person's."""
        return self._table(self._eta)

    @cached_property
    def deviations(self) -> Any:
        """1/η: the least standard deviation, in own units, of an unbiased guess of each numeric cell."""
        return self._table({name: self.deviation(name) for name in self.columns if self._is_number(name)})

    def attribute(self, names: str | Sequence[str]) -> Any:
        """(n,) η of one source column, or of several together, per row, the label not counted."""
        if isinstance(names, str):
            return self._series(self.cell(names))
        return self._series(self._persons.per_row(self._unknowns(names)))

    # --- rows together ---

    @cached_property
    def attributes(self) -> dict[str, float]:
        """Source column -> η of the column over all rows together."""
        return {name: self._attribute_over(name) for name in self.columns}

    @cached_property
    def dataset(self) -> float:
        """η of the whole table."""
        every = np.arange(self.leak.n)
        written_out = isinstance(self.leak.jacobian, ScalarJacobian)  # its shared unknowns add up exactly
        if isinstance(self.leak, WideLeakage) and not (written_out and self._most_rows > 1.0):
            return self._most_rows * self.leak.subset(every, include_target=self.leak.include_target)
        return self._persons.together(every, np.arange(self.leak.m), self.leak.include_target)

    @cached_property
    def persons(self) -> dict[Hashable, float]:
        """Person -> η of all their rows together, in the order in which they first appear."""
        norms = self.unit_scale_eta  # taken once: a pass over all rows may be slow
        figures = norms if self.leak.has_noise else np.where(norms > 0, np.inf, 0.0)
        return dict(zip(dict.fromkeys(self._persons.named), figures.tolist(), strict=True))

    def group(self, by: str | Sequence[Hashable]) -> dict[Hashable, float]:
        """Group -> η of all its rows together; `by` names a column of the frame or gives one group per row."""
        groups = ids_of(self.frame, by, self.leak.n, "by")
        if not len(self._tied) and not self.tied_target:
            return self.leak.group(groups)
        members: dict[Hashable, list[int]] = {}
        for row, name in enumerate(groups):
            members.setdefault(name, []).append(row)
        every = np.arange(self.leak.m)
        return {
            name: self._persons.together(np.array(rows), every, self.leak.include_target)
            for name, rows in members.items()
        }

    def dose(self) -> Dose:
        """One row per person, or per row of the table if no person was named."""
        options: dict[str, Any] = {
            "standing": self.standing,
            "measured_in": self.measured_in,
            "not_covered": self.not_covered,
        }
        if self.ids is None:
            return self.leak.dose(**options)
        return Dose.of_figures(FISHER, "person", list(self.persons), list(self.persons.values()), **options)

    def scale_for(self, target: float) -> float:
        """The noise scale at which the highest person (or row) has η = target; it depends on the data.

        Infinite if a scaler that was fitted on the table leaves that much at any noise.
        """
        if self.floor is None or self.scaler == "held":
            return self.leak.scale_for(target, self.unit_scale_eta)
        if target <= self.left.max():
            return float("inf")
        law = type(self.noise) if self.leak.has_noise else Gaussian
        low = high = float(self.noise.scale) if self.leak.has_noise else 1.0
        while self.figures_at(law, high).max() > target:
            high *= 2.0
        while self.figures_at(law, low).max() <= target:
            low /= 2.0
        from scipy.optimize import brentq

        root = brentq(lambda k: np.log(self.figures_at(law, np.exp(k)).max() / target), np.log(low), np.log(high))
        return float(np.exp(root))

    def scale_within(self, limit: float) -> float:
        """The noise scale at which everyone is within a limit; behind a scaler that is held an upper bound."""
        if self.floor is None or self.scaler != "held":
            return self.scale_for(limit)
        if limit <= self.left.max():
            return float("inf")
        known = float(self.noise.scale) if self.leak.has_noise else 1.0
        return known * float(np.max(self.falling / (limit - self.left)))

    def sentence(self, row: int, column: str) -> str:
        """A sentence on the figure of one cell or label: how well it can be guessed. Rows are counted from 0."""
        if not 0 <= row < self.leak.n:
            raise Refusal(f"rows are positions from 0 to {self.leak.n - 1}, not {row}")
        if column == self.target and column not in self.design.blocks:
            eta, tied = float(self._label_eta[row]), self.tied_target
            deviation, nominal = float(self.target_deviation[row]), self.classes
        else:
            eta, nominal = float(self.cell(column)[row]), column in self.design.nominal
            deviation, tied = float("nan") if nominal else float(self.deviation(column)[row]), column in self.tied
        rows = self._persons.rows_beside(row) if tied else 1
        return cell_sentence(column, row, eta, None if nominal else deviation, rows)

    def __repr__(self) -> str:
        rows = "rows" if self.ids is None else f"rows of {len(set(self.ids))} persons"
        return (
            f"<{type(self).__name__} of {self.leak.n} {rows} x {len(self.columns)} columns, {self.noise}, "
            f"in {self.measured_in}, {self.standing.value}>"
        )

    # --- inside ---

    def _unknowns(self, names: Sequence[str]) -> Any:
        """Positions of the unknowns of source columns."""
        for name in names:
            if name not in self.design.blocks:
                raise Refusal(f"the model has no column {safe_text(name)}: {advice(str(name), self.columns)}")
        return np.array(sorted({j for name in names for j in self.design.blocks[name]}), dtype=np.intp)

    @cached_property
    def _tied(self) -> Any:
        named = self._unknowns([name for name in self.tied if name in self.design.blocks])
        return np.union1d(named, np.asarray(getattr(self.design, "tied", ()), dtype=np.intp)).astype(np.intp)

    @property
    def _most_rows(self) -> float:
        """√k of the person with most rows, k, if anything is tied: at most so much longer is a sum of k Jacobians."""
        if self.ids is None or not (len(self._tied) or self.tied_target):
            return 1.0
        return float(np.sqrt(max(Counter(self.ids).values())))

    @cached_property
    def _persons(self) -> Persons:
        return Persons(self.leak, self.ids, self._tied, self.tied_target)

    @cached_property
    def _label_eta(self) -> FloatArray:
        one_class = self.classes and np.ndim(self.fit.y) == 1  # several labels are several unknowns, not one class
        return self._persons.labels(self.target_unit, one_class)

    def _is_number(self, name: str) -> bool:
        return bool(self.design.blocks[name]) and name not in self.design.nominal and name not in self.texts

    @property
    def texts(self) -> tuple[str, ...]:
        """Source columns of counts: texts, and the columns of a sparse table."""
        return tuple(getattr(self.design, "words", ()))

    @cached_property
    def _eta(self) -> dict[str, FloatArray]:
        """Source column -> (n,) η of its cell in each row."""
        return {name: self._cell(name) for name in self.columns}

    def _cell(self, name: str) -> FloatArray:
        block, vertices = self._unknowns([name]), self.design.vertices.get(name)
        return self._persons.per_row(block) if vertices is None else self._persons.category(block, vertices)

    def cell(self, name: str) -> FloatArray:
        """(n,) η of one source column in each row, as an array whatever the frame."""
        self._unknowns([name])
        return self._eta[name]

    def _attribute_over(self, name: str) -> float:
        block = self._unknowns([name])
        if len(block) == 1 and name not in self.tied and isinstance(self.leak, WideLeakage):
            return self.leak.attribute_alone(int(block[0]))
        if len(block) == 1 and name not in self.tied:
            return float(self.leak.attributes[block[0]])
        if isinstance(self.leak, WideLeakage) and name not in self.tied:
            return (self._most_rows if len(np.intersect1d(block, self._tied)) else 1.0) * self.leak.attribute_over(
                block
            )
        return self._persons.together(np.arange(self.leak.n), block, False)

    def persons_together(self, rows: Any, name: str) -> FloatArray:
        """(q, q) J Jᵀ of one source column on some rows together, which hold all rows of their people."""
        return self._persons.outer_together(rows, self._unknowns([name]), False)

    def deviation(self, name: str) -> FloatArray:
        """(n,) least standard deviation of an unbiased guess of a number, in the column's own unit, as an array.

        A category has no unit: the deviation is that of a guess of its step, which is 1.
        """
        if not self.design.blocks.get(name):
            return np.full(self.leak.n, np.inf)
        in_own_units = self.measured_in == "own units"
        unit = 1.0 if in_own_units else float(self.design.spread[self.design.blocks[name][0]])
        return _one_over(self.cell(name), unit)

    @property
    def classes(self) -> bool:
        """Whether the target is a class."""
        return bool(self.fit.loss.target.classes)

    @property
    def target_deviation(self) -> FloatArray:
        """(n,) least standard deviation of an unbiased guess of the target, in its own unit; classes are 1 apart."""
        own_unit = not self.classes and np.ndim(self.target_unit) == 0  # several targets have no common unit
        return _one_over(self._label_eta, self.target_unit if own_unit else 1.0)

    def _series(self, eta: FloatArray) -> Any:
        return series_like(self.frame, "eta", eta)

    def _table(self, columns: dict[str, FloatArray]) -> Any:
        if isinstance(self.frame, np.ndarray):
            return np.column_stack(list(columns.values())) if columns else np.empty((self.leak.n, 0))
        return like(self.frame, columns)


def _one_over(eta: FloatArray, unit: float) -> FloatArray:
    """unit/η: infinite where η = 0, zero where it is infinite."""
    with np.errstate(divide="ignore"):
        return np.asarray(unit / eta)
