"""Vectorizers: texts to counts of words, n-grams or hashed columns, and what TF-IDF makes of them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from dosimeter.adapters.steps.run import step_name
from dosimeter.adapters.words.state import WordPart, WordsState
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.text import safe_text
from dosimeter.glm.linalg.sparse_table import Table, as_table

VOCABULARY = "the words in the vocabulary"
IDF = "idf weights"
SUBLINEAR = (
    "sublinear_tf: the unknowns are 1 + log(count), not counts; per count of a word that occurs the figures are no "
    "higher"
)
BINARY = "binary=True: the unknowns are whether a word occurs, 0 or 1"


def read_vectorizer(vectorizer: Any, source: str, texts: Sequence[str]) -> WordsState:
    """The counts of a fitted vectorizer, and its own TF-IDF if it has one."""
    readers: dict[str, Callable[[Any, str, Sequence[str]], WordsState]] = {
        "TfidfVectorizer": _tfidf,
        "CountVectorizer": _counts,
        "HashingVectorizer": _hashed,
    }
    for cls in type(vectorizer).__mro__:
        if cls.__name__ in readers and cls.__module__.split(".")[0] == "sklearn":
            return readers[cls.__name__](vectorizer, source, texts)
    raise CannotMeasure(f"{step_name(vectorizer)} is not a vectorizer that is known here")


def is_vectorizer(step: Any) -> bool:
    """Whether a step turns texts into counts."""
    known = ("CountVectorizer", "HashingVectorizer")
    return any(cls.__name__ in known and cls.__module__.split(".")[0] == "sklearn" for cls in type(step).__mro__)


def _counts(vectorizer: Any, source: str, texts: Sequence[str]) -> WordsState:
    if not hasattr(vectorizer, "vocabulary_"):
        raise CannotMeasure(f"{step_name(vectorizer)} before the model is not fitted: fit the whole pipeline first")
    plain: Any = next(cls for cls in type(vectorizer).__mro__ if cls.__name__ == "CountVectorizer")
    counts = _call(vectorizer, lambda: plain.transform(vectorizer, texts))
    words = tuple(map(str, vectorizer.get_feature_names_out()))
    # A vocabulary that the user listed reveals nothing about the data.
    learned = () if vectorizer.vocabulary is not None else (VOCABULARY,)
    state = _state(source, counts, words)
    return state.note(step_name(vectorizer), *learned, remark=BINARY if vectorizer.binary else "")


def _tfidf(vectorizer: Any, source: str, texts: Sequence[str]) -> WordsState:
    state = _counts(vectorizer, source, texts)
    if vectorizer.use_idf and getattr(vectorizer, "idf_", None) is None:
        raise CannotMeasure(f"{step_name(vectorizer)} before the model is not fitted: fit the whole pipeline first")
    return weigh_terms(vectorizer, state)


def weigh_terms(step: Any, state: WordsState) -> WordsState:
    """TF-IDF of a TfidfVectorizer or a TfidfTransformer: 1 + log(count), idf, norm, each if it is switched on."""
    name = step_name(step)
    if step.sublinear_tf:
        state = _logarithms(state, name)
    if step.use_idf:
        state = state.scaled(np.asarray(step.idf_, dtype=np.float64)).note(name, IDF)
    return state.normalised(step.norm, name) if step.norm else state


def _logarithms(state: WordsState, name: str) -> WordsState:
    (part,) = state.parts if len(state.parts) == 1 else (None,)
    if not isinstance(part, WordPart) or part.operations:
        raise CannotMeasure(f"{name} with sublinear_tf behind another step is not read: use it on the counts")
    values = state.X.copy()
    values.data = np.log(values.data) + 1.0
    logs = WordPart(part.source, values, part.words, part.columns)
    return WordsState(values, state.names, (logs,), state.statistics, state.steps, (*state.remarks, SUBLINEAR))


def _hashed(vectorizer: Any, source: str, texts: Sequence[str]) -> WordsState:
    from sklearn.base import clone

    plain = clone(vectorizer).set_params(norm=None)
    counts = _call(vectorizer, lambda: plain.transform(texts))
    names = tuple(f"hashed column {j}" for j in range(counts.shape[1]))
    state = _state(source, counts, names).note(step_name(vectorizer), remark=BINARY if vectorizer.binary else "")
    return state.normalised(vectorizer.norm, step_name(vectorizer)) if vectorizer.norm else state


def _call(vectorizer: Any, transform: Callable[[], Any]) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return transform()
    except Exception as error:  # its own analyser may raise anything
        reason = safe_text(" ".join(str(error).split()), 120)
        raise Refusal(
            f"{step_name(vectorizer)} raised {type(error).__name__} on these texts ({reason}): pass the training texts"
        ) from error


def _state(source: str, counts: Any, words: tuple[str, ...]) -> WordsState:
    table = as_table(sparse.csr_array(counts))
    columns = np.arange(table.shape[1], dtype=np.intp)
    return WordsState(table, words, (WordPart(source, table, words, columns),), {})


def table_state(X: Table, names: tuple[str, ...], source: str) -> WordsState:
    """A sparse table of numbers as it is."""
    return WordsState(X, names, (WordPart(source, X, names, np.arange(X.shape[1], dtype=np.intp)),), {})
