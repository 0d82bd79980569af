"""A fitted model as a verb takes it: the estimator itself, or the file that holds it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dosimeter.core.errors import Refusal
from dosimeter.core.text import safe_text

ENDINGS = (".skops", ".json")
"""Of files that hold a model: an estimator, or bare coefficients."""
TABLES = (".csv", ".tsv", ".txt", ".parquet", ".pq", "")
"""Of files and folders that hold a table."""


def names_a_model(value: Any) -> bool:
    """Whether a path names a file with a model."""
    return isinstance(value, str | os.PathLike) and Path(value).suffix.lower() in ENDINGS


def names_a_table(value: Any) -> bool:
    """Whether a path names a table: a folder, or a file with the ending of one. Other files are refused as models."""
    return isinstance(value, str | os.PathLike) and (Path(value).suffix.lower() in TABLES or Path(value).is_dir())


def is_model(value: Any) -> bool:
    """Whether it is a model as opposed to a table: an estimator, statsmodels results, coefficients, a model's file."""
    from dosimeter.adapters.coefficients import Coefficients

    if isinstance(value, str | os.PathLike):
        return names_a_model(value)
    return (
        isinstance(value, Coefficients | type)
        or hasattr(value, "fit")
        or type(value).__module__.split(".")[0] == "statsmodels"
    )


@contextmanager
def fitted_model(model: Any) -> Iterator[Any]:
    """The model, read from its file if a path is given.

    A file can hold an estimator with any attributes: coefficients of text, a scaler of another width. What then fails
    inside is refused as a fault of the file.
    """
    if not isinstance(model, str | os.PathLike):
        yield model
        return
    from dosimeter.adapters.read_model import read_model

    estimator = read_model(model)
    try:
        yield estimator
    except Refusal:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        fault = f"the model's parts do not fit each other ({type(error).__name__})"
        raise Refusal(f"{safe_text(model, 120)}: {fault}: dump the fitted model again") from error
