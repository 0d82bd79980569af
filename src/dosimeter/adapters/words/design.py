"""The design behind a vectorizer or of a sparse table, and how it depends on the counts of each row."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy import sparse

from dosimeter import glm
from dosimeter.adapters.features import Design, LearnedScalers, held_fixed
from dosimeter.adapters.words.column_values import constant_columns, steps_of_columns
from dosimeter.adapters.words.state import ColumnPart, WordPart, WordsState
from dosimeter.adapters.words.vectorizers import VOCABULARY
from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.face import option
from dosimeter.core.text import safe_list, safe_text
from dosimeter.glm.fitting.route import DIRECT
from dosimeter.glm.fitting.wide_softmax_fit import MOST
from dosimeter.glm.linalg.sparse_table import Table, dense_rows, is_sparse
from dosimeter.glm.row_maps.row_chain import RowChain

WRITTEN_OUT = 1 << 24
"""Numbers of a table that is written out for a model of several outputs: 134 MB."""
FEW_WEIGHTS = 1_024
"""Weights of several classes up to which a table of counts is written out although it has more columns than rows."""
UNKNOWN = (
    "the unknown of {source} is its vector of counts, one for each of {count} words or columns, those that do not "
    "occur included; a dose of η means that no unbiased guess of any weighted sum of the counts, weights of length "
    "one, errs by less than 1/η; what no count shows has no effect on the model: words outside the vocabulary, and the "
    "order of words beyond n-grams"
)


INSIDE = (
    "a file that holds the fitted vectorizer holds words of the training texts and, with idf, in how many texts each "
    "occurs, whatever the noise: HashingVectorizer, or a vocabulary from elsewhere, holds none"
)


@dataclass(frozen=True, eq=False)
class Words:
    """The unknowns of a source of counts: their names, and the counts themselves."""

    names: tuple[str, ...]
    counts: Table
    """(n, m')."""


@dataclass(frozen=True, eq=False)
class WordDesign(Design):
    """A design that is not written out; `X` is a scipy.sparse table, or few columns behind a projection."""

    words: Mapping[str, Words] = field(default_factory=dict)
    """Source -> its counts."""
    scales: FloatArray | None = None
    """(m,) how the first m columns depend on the unknowns, if each has one of its own; None if not."""
    own_units: FloatArray | float = 1.0
    """(m,) one unit of each unknown outside of standard deviations: of a column of two values its step if above 1."""
    tied: Any = ()
    """Positions of unknowns that never change within a person, each one unknown for all rows of a person."""
    moves: glm.ColumnScaleMoves | None = None
    """How the unknowns move the scales of columns that are of this very table; None if none is."""

    def factors(self, units: FloatArray | float = 1.0) -> FloatArray:
        """(m,) one unit of each unknown, for units of `input_map`."""
        return np.broadcast_to(np.asarray(self.own_units if np.all(units == 1.0) else units, dtype=float), (self.m,))

    def input_map(self, units: FloatArray | float = 1.0) -> Any:
        """A scale for each column, a matrix, or a map of each row."""
        factor = self.factors(units)
        if self.row_map is not None:
            return self.row_map.in_units(factor)
        if self.scales is not None:
            return self.scales * factor if is_sparse(self.X) else self._diagonal() * factor
        return sparse.csr_array(self.constant_map) * factor[None, :]

    def _diagonal(self) -> FloatArray:
        scales = np.empty(0) if self.scales is None else self.scales
        return np.eye(self.X.shape[1], len(scales)) * scales

    @property
    def m(self) -> int:
        """Unknowns of a row."""
        return sum(map(len, self.blocks.values()))

    @property
    def inside(self) -> tuple[str, ...]:
        """What a file that holds the fitted steps leaks whatever the noise."""
        return (INSIDE,) if any(note.startswith(VOCABULARY) for note in self.not_covered) else ()

    @property
    def route(self) -> str | None:
        """The route that is exact where the default one would bound a row: None for the default."""
        scales = None if self.scales is None else self.scales * self.own_units
        alike = scales is not None and bool((scales == scales[0]).all())
        return None if alike or self.X.shape[1] > DIRECT or not is_sparse(self.X) else "primal"

    def touched_by(self, features: Any) -> Any:
        """(m,) none: no column of a sparse table is standardised."""
        return np.zeros(self.m, dtype=bool)

    def with_ones(self) -> WordDesign:
        """A last column of ones that no unknown moves."""
        ones, sparse_table = np.ones((self.X.shape[0], 1)), is_sparse(self.X)
        return replace(
            self,
            X=sparse.csr_array(sparse.hstack([self.X, ones])) if sparse_table else np.hstack([self.X, ones]),
            names=(*self.names, "intercept"),
            constant_map=sparse.csr_array(
                sparse.vstack([self.constant_map, sparse.csr_array((1, self.constant_map.shape[1]))])
            ),
            row_map=None if self.row_map is None else self.row_map.with_constant_column(),
        )

    def can_be_written_out(self, classes: int) -> bool:
        """Whether a dense table of these columns, and a matrix of the weights of all margins, are small."""
        n, d = self.X.shape
        if not is_sparse(self.X):
            return True
        alike = self.row_map is None and self.scales is not None and bool((self.scales * self.own_units == 1.0).all())
        by_rows = alike and n < d and classes * (d + 1) > FEW_WEIGHTS  # exact through the row space, and quicker
        return n * d <= WRITTEN_OUT and d <= DIRECT and classes * (d + 1) <= MOST and not (by_rows and classes > 1)

    def written_out(self, model: str) -> Design:
        """A dense table, for a model of several outputs; refused if it is large."""
        n, d = self.X.shape
        if not is_sparse(self.X):
            return self
        if n * d > WRITTEN_OUT or d > DIRECT:
            raise CannotMeasure(
                f"{model} on a sparse table of {n} x {d} has several outputs, whose derivative is taken on a table "
                f"that is written out, of at most {WRITTEN_OUT} numbers and {DIRECT} columns: use fewer words "
                "(max_features, min_df), TruncatedSVD before the model, or a model of two classes"
            )
        return replace(self, X=dense_rows(self.X, slice(None)))


def word_design(state: WordsState, sources: Sequence[str]) -> WordDesign:
    """The design after all steps; `sources` are all columns of the table, in its order."""
    blocks: dict[str, tuple[int, ...]] = {name: () for name in sources}
    words: dict[str, Words] = {}
    vertices: dict[str, FloatArray] = {}
    spreads: list[FloatArray] = []
    not_covered: list[str] = []
    first = 0
    places: list[FloatArray] = []
    for part in state.parts:
        size = part.counts.shape[1] if isinstance(part, WordPart) else part.constant_map.shape[1]
        places.append(np.arange(first, first + size, dtype=np.intp))
        if isinstance(part, WordPart):
            blocks[part.source] = (*blocks.get(part.source, ()), *range(first, first + size))
            words[part.source] = _joined(words.get(part.source), part)
            spreads.append(_spreads(part.counts))
        else:
            for name, own in part.design.blocks.items():
                if own and blocks.get(name):
                    raise CannotMeasure(f"column {name} goes into two branches beside a text: give it to one of them")
                blocks[name] = tuple(first + j for j in own) if own else blocks.get(name, ())
            vertices |= part.design.vertices
            spreads.append(part.design.spread)
            not_covered += part.design.not_covered
        first += size
    constant_map, row_map, scales = _maps(state, places, first)
    held = [held_fixed(statistic, words) for statistic in state.statistics]
    return WordDesign(
        X=state.X,
        names=state.names,
        constant_map=constant_map,
        blocks=blocks,
        vertices=vertices,
        spread=np.concatenate(spreads),
        not_covered=(*dict.fromkeys([*not_covered, *held]),),
        row_map=row_map,
        remarks=(
            *(UNKNOWN.format(source=name, count=len(part.names)) for name, part in words.items()),
            *state.remarks,
        ),
        unfoldable=tuple(dict.fromkeys(state.steps)) or ("a sparse table",),
        words=words,
        scales=scales,
        learned=_learned_beside([part for part in state.parts if isinstance(part, ColumnPart)]),
        moves=_moves(state),
    )


def _learned_beside(parts: Sequence[ColumnPart]) -> LearnedScalers | None:
    """Numbers beside texts that are behind a scaler of this very table."""
    known = [(part, part.learned) for part in parts if part.learned is not None]
    if not known:
        return None
    return LearnedScalers(
        np.concatenate([part.columns[learned.features] for part, learned in known]).astype(np.intp),
        np.hstack([learned.by_scale for _, learned in known]),
        np.hstack([learned.by_mean for _, learned in known]),
        tuple(dict.fromkeys(name for _, learned in known for name in learned.statistics)),
        np.concatenate([learned.additive for _, learned in known]),
    )


def _moves(state: WordsState) -> glm.ColumnScaleMoves | None:
    """Of all unknowns, in their order."""
    if not any(isinstance(part, WordPart) and part.moves is not None for part in state.parts):
        return None
    n = state.X.shape[0]
    each = []
    for part in state.parts:
        if isinstance(part, WordPart) and part.moves is not None:
            each.append(part.moves)
        else:
            m = part.counts.shape[1] if isinstance(part, WordPart) else part.constant_map.shape[1]
            each.append(glm.ColumnScaleMoves.nothing(n, m))
    return glm.ColumnScaleMoves.beside(each)


def by_column(
    design: WordDesign, source: str, ids: Sequence[Hashable] | None, tied: Sequence[str], not_tied: Sequence[str]
) -> WordDesign:
    """The design of a sparse table, whose columns are values of their own: steps of two values, and ties.

    ids: the person of each row; None if nobody was named. tied, not_tied: names of columns, as in `tables.tie`.
    """
    words = design.words[source]
    own_units = np.maximum(steps_of_columns(words.counts), 1.0)
    if ids is None:
        return replace(design, own_units=own_units)
    place = {name: j for j, name in enumerate(words.names)}
    constant = constant_columns(words.counts, ids)
    for name in tied:
        if place[name] not in constant:
            raise Refusal(f"column {safe_text(name)} is tied but not constant within a person: leave it out of tied")
    kept = np.setdiff1d(constant, [place[name] for name in not_tied]).astype(np.intp)
    shown, undo = safe_list([words.names[j] for j in kept]), option("not_tied", "NAME")
    remark = f"tied: {shown}, one unknown for all rows of a person; {undo} counts it once per row"
    return replace(design, own_units=own_units, tied=kept, remarks=(*design.remarks, *((remark,) if len(kept) else ())))


def _joined(known: Words | None, part: WordPart) -> Words:
    """Counts of one source by several vectorizers, side by side."""
    if known is None:
        return Words(part.words, part.counts)
    counts = sparse.csr_array(sparse.hstack([known.counts, part.counts]))
    return Words((*known.names, *part.words), counts)


def _spreads(counts: Table) -> FloatArray:
    """(m,) standard deviations; of a column of two values the step between them, 1 for a constant."""
    n = counts.shape[0]
    mean = np.asarray(counts.sum(axis=0), dtype=np.float64).ravel() / n
    squares = np.asarray(counts.multiply(counts).sum(axis=0), dtype=np.float64).ravel() / n
    variance = np.maximum(squares - mean**2, 0.0)
    steps = steps_of_columns(counts)
    return np.where(steps > 0.0, steps, np.where(variance > 1e-15 * squares, np.sqrt(variance), 1.0))


def _maps(state: WordsState, unknowns: list[Any], m: int) -> tuple[Any, glm.RowMap | None, FloatArray | None]:
    """A matrix (d, m), or a map of each row, and the scales if each column has one unknown of its own, in order."""
    d = state.X.shape[1]
    chains, constants, scales = [], [], np.zeros(m)
    one_each = True
    for part, where in zip(state.parts, unknowns, strict=True):
        if isinstance(part, ColumnPart):
            constants.append((part.columns, where, part.constant_map))
            square = part.constant_map.shape[0] == part.constant_map.shape[1] and np.array_equal(part.columns, where)
            diagonal = square and np.count_nonzero(part.constant_map) == np.count_nonzero(
                np.diagonal(part.constant_map)
            )
            one_each = one_each and diagonal
            scales[where] = np.diagonal(part.constant_map) if diagonal else 0.0
            continue
        unit = part.scales
        if unit is None:
            chains.append(RowChain.of(part.columns, where, part.operations))
            continue
        one_each = one_each and np.array_equal(part.columns, where)
        scales[where] = unit if one_each else 0.0
        constants.append((part.columns, where, sparse.diags_array(unit)))
    constant_map: Any = sparse.csr_array((d, m))
    for columns, where, matrix in constants:
        entries = sparse.coo_array(matrix)
        constant_map = constant_map + sparse.csr_array(
            (entries.data, (columns[entries.row], where[entries.col])), shape=(d, m)
        )
    if chains:
        constant = np.asarray(constant_map.toarray()) if constants else np.zeros((d, m))
        return constant_map, glm.RowMap(constant, chains=tuple(chains)), None
    return constant_map, None, scales if one_each and (scales != 0).all() else None
