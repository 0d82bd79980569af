"""The rows of a person and the unknowns that they share: a tied column is one unknown, whose Jacobians add."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dosimeter import glm
from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import Refusal
from dosimeter.glm.jacobians.category_steps import shared_norms, shared_outer
from dosimeter.glm.linalg.certified_eigenvalue import largest_eigenvalue

_NONE: Any = np.empty(0, dtype=np.intp)
MANY = 256
"""With more unknowns than this in a row, cells are computed column by column: most are levels of a category."""


@dataclass(frozen=True, eq=False)
class Persons:
    """η of cells and of sets of rows, where a tied value counts once for all rows of its person."""

    leak: glm.Leakage
    ids: tuple[Hashable, ...] | None
    """(n,) the person of each row."""
    tied: Any
    """Positions of the tied unknowns."""
    tied_target: bool = False
    """Whether a person's label is one unknown for all their rows."""

    @property
    def named(self) -> tuple[Hashable, ...]:
        """(n,) ids; refused if there are none."""
        if self.ids is None:
            raise Refusal("no person was named: pass person= to measure, or read `examples`")
        return self.ids

    @cached_property
    def number(self) -> Any:
        """(n,) each row's person as a number."""
        order = {person: k for k, person in enumerate(dict.fromkeys(self.named))}
        return np.array([order[person] for person in self.named])

    def rows_beside(self, row: int) -> int:
        """How many rows the person of this row has."""
        return int(np.sum(self.number == self.number[row]))

    def per_row(self, block: Any) -> FloatArray:
        """(n,) η of the unknowns `block` of each row; a tied unknown has the person's figure on all rows."""
        if not len(block):
            return np.zeros(self.leak.n)
        alone = len(block) == 1 and self.leak.m <= MANY
        eta = self.leak.cells[:, block[0]] if alone else self.leak.attribute(block)
        tied, untied = np.intersect1d(self.tied, block), np.setdiff1d(block, self.tied)
        if not len(tied):
            return eta
        eta, several = eta.copy(), self._several(np.arange(self.leak.n))
        if not len(untied):
            norms = shared_norms(self.leak.jacobian, several, tied) if several else np.empty(0)
            figures = norms if self.leak.has_noise else np.where(norms > 0, np.inf, 0.0)
            eta[_concatenate(several)] = np.repeat(figures, [len(rows) for rows in several])
            return eta
        if isinstance(self.leak, glm.WideLeakage) or len(block) > MANY:  # all rows of the person: an upper bound
            by_person = self.leak.group(self.named, tied=tied.tolist(), columns=block)
            eta[_concatenate(several)] = np.array([by_person[self.named[row]] for row in _concatenate(several)])
            return eta
        outer = self.leak.jacobian.outer
        for rows in several:
            M = outer(rows, _NONE, False, tied)
            for row in rows:
                eta[row] = self._figure(M + outer(np.array([row]), untied, False, _NONE))
        return eta

    def category(self, block: Any, vertices: FloatArray) -> FloatArray:
        """(n,) η of the largest step of a category in each row; a tied unknown has the person's figure on all rows."""
        return self._steps(block, vertices, bool(np.isin(block, self.tied).all()))

    def labels(self, unit: Any, classes: bool = True) -> FloatArray:
        """(n,) η of each row's label, of several classes the largest step; a tied label has the person's figure.

        unit: the change of a label that one unit of the figures stands for. classes: whether several positions are the
        indicators of one class; otherwise they are several targets, and the figure is of all of them together.
        """
        positions = self.leak.target_positions
        if not classes and len(positions) > 1:
            eta, several = self.leak.labels, self._several(np.arange(self.leak.n)) if self.tied_target else []
            if several:
                eta = eta.copy()
                figures = [self._figure(shared_outer(self.leak.jacobian, [rows], positions)) for rows in several]
                eta[_concatenate(several)] = np.repeat(figures, [len(rows) for rows in several])
            return eta
        if len(positions) == 1 and not self.tied_target:
            return self.leak.labels
        return self._steps(
            positions,
            np.array([[0.0], [1.0]]) if len(positions) == 1 else np.eye(len(positions)) / unit,
            self.tied_target,
        )

    def _steps(self, positions: Any, vertices: FloatArray, tied: bool) -> FloatArray:
        eta = (
            self.leak.labels
            if len(positions) == 1 and positions[0] == self.leak.m
            else self.leak.category(positions, vertices)
        )
        several = self._several(np.arange(self.leak.n)) if tied else []
        if several:
            eta = eta.copy()
            eta[_concatenate(several)] = np.repeat(
                self.leak.category(positions, vertices, several), [len(rows) for rows in several]
            )
        return eta

    def together(self, rows: Any, columns: Any, label: bool) -> float:
        """η of the unknowns `columns` of some rows together, and of their labels if `label`."""
        if not len(columns) and not label:
            return 0.0
        return self._figure(self.outer_together(rows, columns, label))

    def outer_together(self, rows: Any, columns: Any, label: bool) -> FloatArray:
        """(q, q) J Jᵀ of the same; of parts of a table that hold all rows of their people, they add up."""
        outer = self.leak.jacobian.outer
        tied, untied = np.intersect1d(self.tied, columns), np.setdiff1d(columns, self.tied)
        free_label = label and not self.tied_target
        if label and self.tied_target:
            tied = np.concatenate([tied, self.leak.target_positions])
        several = self._several(rows) if len(tied) else []
        if not several:
            return np.asarray(outer(rows, columns, label, _NONE))
        M = shared_outer(self.leak.jacobian, several, tied)
        if len(untied) or free_label:
            M = M + outer(_concatenate(several), untied, free_label, _NONE)
        alone = np.setdiff1d(rows, _concatenate(several))
        return np.asarray(M + outer(alone, columns, label, _NONE) if len(alone) else M)

    def _several(self, rows: Any) -> list[Any]:
        """The rows of each person who has more than one of these rows."""
        ordered = rows[np.argsort(self.number[rows], kind="stable")]
        ends = np.flatnonzero(np.diff(self.number[ordered])) + 1
        return [part for part in np.split(ordered, ends) if len(part) > 1]

    def _figure(self, outer: FloatArray) -> float:
        norm = float(np.sqrt(largest_eigenvalue(outer)))
        return norm if self.leak.has_noise or norm == 0.0 else float("inf")


def _concatenate(several: list[Any]) -> Any:
    return np.concatenate(several) if several else _NONE
