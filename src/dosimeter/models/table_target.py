"""The target of a table as a loss takes it (numbers, counts, positions of classes), and the choice of the loss."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dosimeter import glm
from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import Refusal
from dosimeter.core.text import safe_list, safe_text
from dosimeter.tables.column_levels import as_text, comma_refusal, decimal_commas
from dosimeter.tables.column_values import distinct
from dosimeter.tables.declared_bounds import Declaration
from dosimeter.tables.table import Table

SOFTMAX = glm.Softmax.name
MOST_CLASSES = 50


def loss_names() -> tuple[str, ...]:
    """The values of `loss`: "auto", or the name of a registered loss."""
    return ("auto", *glm.LOSSES, SOFTMAX)


def _kind(loss: str) -> glm.TargetKind:
    """What a loss predicts, by its name."""
    return glm.TargetKind.CLASSES if loss == SOFTMAX else glm.LOSSES[loss].target


def _class_losses() -> str:
    return " or ".join(name for name in loss_names()[1:] if _kind(name).classes)


_PreparedTarget = tuple[FloatArray, Any, tuple[str, ...], str, NDArray[Any] | None]


def target_declaration(declared: dict[str, Declaration], target: str) -> Declaration | tuple[()]:
    """What was declared about the target, () if nothing was."""
    return declared.get(target, ())


def clip_target(table: Table, target: str, declaration: Declaration | None) -> Table:
    """The table with the target clipped to its public bounds, if it has any."""
    if declaration is None or isinstance(declaration, tuple):
        return table
    if table.kind(target) == "text":
        raise Refusal(f"the target {safe_text(target)} holds text, and lower and upper were declared: declare levels")
    clipped = np.clip(table[target].astype(float), declaration.lower, declaration.upper)
    columns = tuple(clipped if name == target else table[name] for name in table.names)
    return Table(table.names, columns, table.rows, table.dropped, table.gaps, table.texts)


def _classes(table: Table, target: str, levels: tuple[str, ...]) -> tuple[NDArray[Any], FloatArray]:
    """The declared classes as the table writes them, in order, and the position of each row's among them."""
    kind, shown = table.kind(target), safe_text(target)
    try:
        typed = sorted((float(level) if kind == "number" else level, level) for level in levels)
    except ValueError:
        raise Refusal(f"the target {shown} holds numbers, and its declared levels are not: correct them") from None
    names = [level for _, level in typed]
    if kind == "number":  # 1 and 1.0 are one class
        names = [str(int(v)) if float(v).is_integer() else repr(float(v)) for v, _ in typed]
    place = {level: float(k) for k, level in enumerate(names)}
    cells = as_text(table, target).tolist()
    if any(cell not in place for cell in cells):
        raise Refusal(f"the target {shown} has a value that is not among its declared levels: declare all classes")
    values = [cell == "True" for cell in names] if kind == "bool" else [value for value, _ in typed]
    return np.array(values), np.array([place[cell] for cell in cells])


def prepare_target(
    table: Table, target: str, loss: str, declaration: Declaration | tuple[()] | None = None
) -> _PreparedTarget:
    """y (n,) as the loss wants it, the loss, the outputs' names, a remark on the choice, the classes.

    declaration: of the target, () if there is none; None if it may be read off the table.
    """
    if declaration is not None:
        return _declared_target(table, target, loss, declaration)
    column, shown = table[target], safe_text(target)
    if table.n < 2:
        raise Refusal(f"the table has {'one row only' if table.n else 'no row'}: give at least two people")
    levels = _levels(column)
    if len(levels) < 2:
        raise Refusal(f"the target {shown} has one value only: there is nothing to fit")
    text = table.kind(target) == "text"
    chosen = loss
    if loss == "auto":
        chosen = "logistic" if len(levels) == 2 else "softmax" if text else "squared"
    if text and decimal_commas(map(str, levels)):
        raise comma_refusal(f"the target {shown}")
    kind = _kind(chosen)
    if text and not kind.classes:
        raise Refusal(f"the target {shown} holds text: use the loss {_class_losses()}")
    origin = "chosen for the target's values" if loss == "auto" else "as requested"
    if kind is glm.TargetKind.TWO_CLASSES:
        if len(levels) != 2:
            raise Refusal(f"the target {shown} has {len(levels)} values and {chosen} needs two: use softmax or squared")
        remark = f"loss {chosen}, {origin}: it predicts {shown} = {safe_text(_written(levels[1]))}"
        return (_positions(column, levels)), glm.LOSSES[chosen](), (target,), remark, np.unique(column)
    if kind is glm.TargetKind.CLASSES:
        if len(levels) > MOST_CLASSES:
            raise Refusal(
                f"the target {shown} has {len(levels)} classes and at most {MOST_CLASSES} are taken: use squared"
            )
        remark = f"loss softmax, {origin}: the classes of {shown} are {safe_list(levels)}"
        outputs = tuple(map(str, levels))
        return _positions(column, levels), glm.Softmax(len(levels), "mean"), outputs, remark, np.array(levels)
    y = np.asarray(column, dtype=np.float64)
    return y, glm.LOSSES[chosen](), (target,), f"loss {chosen}, {origin}", None


def _declared_target(table: Table, target: str, loss: str, declaration: Declaration | tuple[()]) -> _PreparedTarget:
    """The same from the declaration: loss and classes must not depend on the rows."""
    shown, origin = safe_text(target), "chosen for the target's declaration" if loss == "auto" else "as requested"
    if isinstance(declaration, tuple) and declaration:
        classes, y = _classes(table, target, declaration)
        if len(classes) < 2:
            raise Refusal(f"bounds of the target {shown}: declare two classes or more")
        chosen = loss if loss != "auto" else "logistic" if len(classes) == 2 else "softmax"
        kind = _kind(chosen)
        if kind is glm.TargetKind.TWO_CLASSES and len(classes) == 2:
            remark = f"loss {chosen}, {origin}: it predicts {shown} = {safe_text(classes[1])}"
            return y, glm.LOSSES[chosen](), (target,), remark, classes
        if kind is glm.TargetKind.CLASSES and len(classes) <= MOST_CLASSES:
            remark = f"loss softmax, {origin}: the classes of {shown} are {safe_list(classes.tolist())}"
            return y, glm.Softmax(len(classes), "mean"), tuple(map(str, classes.tolist())), remark, classes
        raise Refusal(
            f"the target {shown} is declared with {len(classes)} levels, which the loss {chosen} does not fit"
        )
    if loss != "auto" and _kind(loss).classes:
        raise Refusal(f"the loss {loss} needs the classes of {shown}: declare its levels")
    if not declaration and loss == "auto":
        raise Refusal(f"nothing is declared about the target {shown}: declare bounds or levels, or name the loss")
    if table.kind(target) == "text":
        raise Refusal(f"the target {shown} holds text: declare its levels")
    y = np.asarray(table[target], dtype=np.float64)
    chosen = "squared" if loss == "auto" else loss
    return y, glm.LOSSES[chosen](), (target,), f"loss {chosen}, {origin}", None


def _levels(column: NDArray[Any]) -> list[Any]:
    """The distinct values, ascending."""
    few = None if column.dtype == object else distinct(column, MOST_CLASSES)
    return sorted(set(column.tolist())) if few is None else few.tolist()


def _written(level: Any) -> Any:
    """A level as a reader writes it: 1 for 1.0."""
    return int(level) if isinstance(level, float) and level.is_integer() else level


def _positions(column: NDArray[Any], levels: list[Any]) -> FloatArray:
    if column.dtype != object:
        return np.searchsorted(np.array(levels), column).astype(np.float64)
    place = {level: float(k) for k, level in enumerate(levels)}
    return np.array([place[cell] for cell in column.tolist()])
