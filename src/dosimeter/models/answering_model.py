"""A linear model that answers queries instead of being released: its answers, and what noised answers leak."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dosimeter import glm
from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.noise import Gaussian, Noise
from dosimeter.core.text import safe_text
from dosimeter.models.fit_table import by_output
from dosimeter.models.given_model import GivenModel
from dosimeter.models.table_leakage import TableLeakage
from dosimeter.tables.column_values import spread
from dosimeter.tables.encoding import TableEncoding
from dosimeter.tables.read import read_table, table_names
from dosimeter.tables.row_arguments import names_of
from dosimeter.tables.table import Table

UNIT = Gaussian(1.0)
"""The noise at which the parameters are measured first: the answers' information multiplies their Jacobian."""
MOST_QUERIES = 1_000_000
OFFSET = "a model with an offset answers by an offset of each query, which no column holds: measure its weights"


@dataclass(frozen=True, eq=False)
class Asked:
    """The queries of a model that only answers, and how a file of them is read."""

    queries: Any
    answer: glm.Answer
    noise: Any
    delimiter: str = ","
    decimal: str = "."


@dataclass(frozen=True, eq=False)
class AnsweringModel:
    """A fitted model and its table, ready for queries. Internal: it holds the table."""

    parameters: TableLeakage
    """What the parameters themselves leak, with `UNIT` noise on each."""
    columns: tuple[str, ...]
    """The columns that a query has."""
    encode: Callable[[Table], FloatArray]
    """A table of queries to (k, d), the columns of the fit."""
    text: tuple[str, ...] = ()
    """Columns of queries that are read as exact text."""
    classes: tuple[Any, ...] = ()
    """Classes in the order of the answers; () for a number."""
    reference: glm.ReferenceQueries | None = None
    """The measured list of queries as a unit, in which a gateway counts."""

    @classmethod
    def of_fit(
        cls, leakage: TableLeakage, encoding: TableEncoding, categorical: Sequence[str], classes: tuple[Any, ...] = ()
    ) -> AnsweringModel:
        """Of a model that was fitted here."""
        names = tuple(source.name for source in encoding.sources)
        text = tuple(name for name in categorical if name in names)

        def encode(table: Table) -> FloatArray:
            try:
                return encoding.design(table)
            except Refusal as refusal:  # its remedy is for rows of the training table
                fault = str(refusal).rsplit(": ", 1)[0]
                raise Refusal(f"queries: {fault}: ask with levels and numbers that the model knows") from None

        return cls(_checked(leakage), names, encode, text, classes)

    @classmethod
    def of_given(cls, given: GivenModel) -> AnsweringModel:
        """Of a given model."""

        def encode(table: Table) -> FloatArray:
            X = given.probe({name: table[name] for name in given.columns})
            return np.hstack([X, np.ones((len(X), 1))]) if given.problem.penalised_intercept else X

        text = tuple(name for name, column in given.columns.items() if column.dtype.kind == "O")
        classes = () if given.classes is None else tuple(np.asarray(given.classes).tolist())
        return cls(_checked(given.leakage), tuple(given.columns), encode, text, classes)

    @property
    def fit(self) -> glm.Fit:
        """The exact fit that answers."""
        fit: glm.Fit = self.parameters.fit
        return fit

    def read(self, queries: Any, delimiter: str = ",", decimal: str = ".") -> FloatArray:
        """(k, d) queries of a file or a frame, encoded as the model's own columns are. Internal: see `table`."""
        return self.encode(self.table(queries, delimiter, decimal))

    def table(self, queries: Any, delimiter: str = ",", decimal: str = ".") -> Table:
        """Queries of a file or a frame as they were asked; columns that the model does not read are left out.

        Public, where the encoded rows are not: these may be standardised by the table's own mean and deviation.
        """
        if isinstance(queries, str | os.PathLike):
            names: Sequence[str] = table_names(queries, delimiter=delimiter)
            drop = [name for name in names if name not in self.columns]
            table = read_table(
                queries, delimiter=delimiter, decimal=decimal, text=self.text, drop=drop, needed=self.columns
            )
        else:
            names = names_of(queries)
            absent = [name for name in self.columns if name not in names]
            if absent:
                raise Refusal(f"the queries have no column {safe_text(absent[0])}, which the model reads: add it")
            table = Table.of(queries, text=self.text, drop=[name for name in names if name not in self.columns])
        if not 0 < table.n <= MOST_QUERIES:
            raise Refusal(f"there are {table.n} queries: pass 1 to {MOST_QUERIES}")
        return table

    def with_reference(self, table: Table) -> AnsweringModel:
        """This model with a public list of queries as the unit, and beside it each number moved once.

        Without the moved ones a short list would say nothing about a query that differs from it.
        """
        try:
            rows = self.encode(_with_moved_numbers(table))
        except Refusal:  # a moved number is outside declared bounds
            rows = self.encode(table)
        return replace(self, reference=glm.ReferenceQueries.of(self.fit, rows, table.n))

    def answers(self, rows: FloatArray, answer: glm.Answer) -> FloatArray:
        """(k, outputs) exact margins, or predictions, of encoded queries. Internal."""
        X = np.column_stack([rows, np.ones(len(rows))]) if self.fit.intercept else rows
        margins = X @ by_output(self.fit, self.fit.w)
        if answer is not glm.Answer.PREDICTIONS:
            return np.asarray(margins)
        if isinstance(self.fit.loss, glm.Softmax):
            weights = np.exp(margins - margins.max(axis=1, keepdims=True))
            return np.asarray(weights / weights.sum(axis=1, keepdims=True))
        return np.asarray(self.fit.loss.prediction(margins[:, 0])[0][:, None])

    def information(self, rows: FloatArray, noise: Noise, answer: glm.Answer) -> glm.AnswerInformation:
        """What answers with this noise say about the parameters."""
        return glm.AnswerInformation.of(self.fit, rows, noise, answer)

    def information_at_most(self, rows: FloatArray, noise: Noise, answer: glm.Answer) -> glm.AnswerInformation:
        """The most that answers with this noise say about the parameters, whatever these are."""
        return glm.AnswerInformation.at_most(self.fit, rows, noise, answer)

    def leakage(self, information: glm.AnswerInformation) -> TableLeakage:
        """What these answers leak, by the names of the table."""
        through = glm.leakage_of_answers(self.parameters.leak, information)
        return replace(self.parameters, leak=through, floor=None)


def _with_moved_numbers(table: Table) -> Table:
    """The queries, then the first one with one number moved by its spread in the list, or by its size."""
    numbers = [name for name in table.names if table.kind(name) == "number"]
    columns = []
    for name in table.names:
        values = table[name]
        more = np.repeat(values[:1], len(numbers))
        if name in numbers:
            constant = bool((values == values[0]).all())
            more[numbers.index(name)] += (abs(values[0]) or 1.0) if constant else spread(values)
        columns.append(np.concatenate([values, more]))
    return Table(table.names, tuple(columns))


def _checked(leak: TableLeakage) -> TableLeakage:
    """Refused unless the model is one fit of one loss, whose answers have a derivative here."""
    fit = leak.fit
    if not isinstance(fit, glm.Fit) or not isinstance(fit.loss, glm.ScalarLoss | glm.Softmax):
        name = safe_text(getattr(fit.loss, "name", type(fit).__name__))
        raise CannotMeasure(f"answers of this model ({name}) have no figure here: measure its weights")
    if fit.offset is not None and np.any(fit.offset):
        raise CannotMeasure(OFFSET)
    return leak
