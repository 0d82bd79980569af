"""442 diabetes patients that ship inside scikit-learn: real people, no download."""

from __future__ import annotations

import numpy as np

from dosimeter.tables.table import Table

TARGET = "progression"
DERIVED = ("cholesterol", "cholesterol_over_hdl")
"""Functions of the other columns: cholesterol = ldl + hdl + triglycerides/5 (Friedewald), and its ratio to hdl. Anyone
who knows the rest knows them to a thousandth without any model. Keeping them would raise the highest dose 16-fold and
the share of explained variance by 0.005."""
_COLUMN_NAMES = {
    "s1": "cholesterol",
    "s2": "ldl",
    "s3": "hdl",
    "s4": "cholesterol_over_hdl",
    "s5": "log_triglycerides",
    "s6": "glucose",
    "bp": "blood_pressure",
}


def diabetes() -> Table:
    """Age, sex, bmi, blood pressure and six blood values in their original units, and the progression of the disease.

    >>> diabetes().n
    442
    """
    from sklearn.datasets import load_diabetes

    data = load_diabetes(scaled=False)
    columns = {_COLUMN_NAMES.get(name, name): data.data[:, j] for j, name in enumerate(data.feature_names)}
    # The two codes of sex are labels, not amounts, and the source does not say which is which.
    columns["sex"] = np.array([f"code {int(code)}" for code in columns["sex"]], dtype=object)
    return Table.of({**columns, TARGET: data.target})
