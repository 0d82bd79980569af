"""What a search of an unopened file costs, and how often it errs.

    python benchmarks/scan.py [--quick]

Speed: 200,000 cells (20,000 x 10) against a file of 50 MB, processor seconds after reading, best of three: bytes that
have nothing to do with the table, and bytes that hold it.
False alarms: 200 clean models of ten kinds, fitted on 40 tables of their own, each compared with 5 tables that it was
not fitted on; a model whose scan says that people are inside is a false alarm.
Targets: a saved formula model of statsmodels (every cell), a logistic regression (none), a support vector machine
(exactly its support vectors).
"""

from __future__ import annotations

import argparse
import pickle
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from dosimeter.scanner import scan
from dosimeter.scanner.search import ByteSearch, Cells
from dosimeter.tables.table import Table


def people(rng: np.random.Generator, n: int, d: int) -> dict[str, Any]:
    """Columns of many digits, of one decimal, of whole numbers and of two values."""
    kinds = [
        rng.normal(50, 10, n),
        rng.normal(50, 10, n).round(1),
        rng.integers(18, 90, n).astype(float),
        rng.integers(0, 2, n).astype(float),
        rng.lognormal(3, 1, n).round(2),
    ]
    columns = {f"c{j}": rng.permutation(kinds[j % 5]) + (rng.normal(0, 1, n) if j >= 5 else 0) for j in range(d)}
    return {**columns, "y": (columns["c0"] + rng.normal(0, 10, n) > 50).astype(float)}


def speed(megabytes: int) -> None:
    """Seconds of a search after reading."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(20_000, 10))
    table = Table.of({f"x{j}": values[:, j] for j in range(10)})
    clean = rng.bytes(megabytes * 2**20)
    held = rng.bytes((megabytes * 2**20 - values.nbytes) // 2) + values.tobytes() + rng.bytes(megabytes * 2**19)
    for name, data in (("unrelated bytes", clean), ("bytes that hold it", held[: len(clean)])):
        seconds = []
        for _ in range(3):
            start = time.process_time()
            matches, _ = ByteSearch(Cells.of(table)).search(data)
            seconds.append(time.process_time() - start)
        cells = max((len(match.cells) for match in matches), default=0)
        print(f"200,000 cells, {megabytes} MB, {name}: {min(seconds):.2f} s, {cells} cells found (asked: under 1 s)")


def clean_models() -> list[Any]:
    """Kinds of models that keep no rows."""
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import Lasso, LinearRegression, LogisticRegression, PoissonRegressor, Ridge
    from sklearn.naive_bayes import GaussianNB
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return [
        LogisticRegression(max_iter=500),
        LinearRegression(),
        Ridge(),
        Lasso(alpha=0.01),
        PoissonRegressor(max_iter=500),
        GaussianNB(),
        LinearDiscriminantAnalysis(),
        make_pipeline(StandardScaler(), LogisticRegression()),
        make_pipeline(StandardScaler(), MLPClassifier((8,), max_iter=30, random_state=0)),
        RandomForestClassifier(5, max_depth=2, random_state=0),
    ]


def false_alarms(models: int) -> None:
    """Scans of clean models against tables that they were not fitted on."""
    from sklearn.base import clone

    rng = np.random.default_rng(1)
    others = [Table.of(people(rng, n, d)) for n, d in ((300, 4), (500, 6), (1000, 8), (2000, 10), (4000, 5))]
    alarms, scans = [], 0
    kinds = clean_models()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for k in range(models):
            own = people(rng, 400, 5)
            X = np.column_stack([own[name] for name in own if name != "y"])
            path = Path(folder, "m.pkl")
            path.write_bytes(pickle.dumps(clone(kinds[k % len(kinds)]).fit(X, own["y"])))
            for number, table in enumerate(others):
                scans += 1
                result = scan(path, table)
                if result.rows_inside or any(
                    finding.match is not None and finding.match.beyond_accident
                    for finding in result.findings
                    if finding.severity in ("rows", "values of single people")
                ):
                    alarms.append((type(kinds[k % len(kinds)]).__name__, number))
    print(f"false alarms: {len(alarms)} of {scans} scans ({models} clean models x 5 tables) {alarms[:5]}")


def targets() -> None:
    """The three files that the threads ask about."""
    import pandas as pd
    import statsmodels.formula.api as smf
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import SVC

    rng = np.random.default_rng(2)
    frame = pd.DataFrame(rng.normal(size=(2000, 9)), columns=[f"x{j}" for j in range(9)])
    frame["y"] = frame.x0 + rng.normal(size=2000)
    table = Table.of(frame)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "m.pkl")
        smf.ols("y ~ x0 + x1", frame).fit().save(str(path), remove_data=True)
        result = scan(path, table)
        cells = [finding.match.view for finding in result.findings if finding.match and "cells" in finding.match.view]
        print(f"statsmodels save(remove_data=True): {len(result.matched_rows)} of 2000 rows; {cells[0]}")
        features, label = frame.drop(columns="y").to_numpy(), (frame.y > 0).to_numpy()
        path.write_bytes(pickle.dumps(LogisticRegression().fit(features, label)))
        print(f"LogisticRegression: {len(scan(path, table).matched_rows)} rows")
        model = SVC().fit(features, label)
        path.write_bytes(pickle.dumps(model))
        equal = scan(path, table).matched_rows == tuple(sorted(model.support_ + 1))
        print(f"SVC: exactly its {len(model.support_)} support vectors: {equal}")


def main() -> None:
    """Print every figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="10 MB and 20 models")
    quick = parser.parse_args().quick
    speed(10 if quick else 50)
    targets()
    false_alarms(20 if quick else 200)


if __name__ == "__main__":
    main()
