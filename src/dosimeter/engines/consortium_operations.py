"""The operations of a consortium besides the sums of a fit: what a site is asked before and after it."""

from __future__ import annotations

from dosimeter.core.scale_ladder import LEAST_RUNG, MOST_RUNG
from dosimeter.engines.protocol.fields import Blob, Count, Flag, Layout, Number, Numbers, Text, WholeNumbers
from dosimeter.engines.protocol.operations import operation

MOST_ROWS = 10**10
TOTALS: Layout = {
    "rows": Count(1, MOST_ROWS),
    "means": Numbers(("numbers",)),
    "squares": Numbers(("numbers",)),
    "target_mean": Number(),
    "target_squares": Number(),
    "several": Flag(),
    "changes": Numbers(("unknowns",)),
}
FITTED: Layout = {
    **TOTALS,
    "w": Numbers(("p",)),
    "low": Numbers(("p",)),
    "refined": Flag(),
    "v": Numbers(("p",)),
    "coordinate_basis": Numbers(("p", "p")),
    "coordinate_mixing": Numbers(("p", "p")),
    "coordinate_condition": Number(),
    "factor_basis": Numbers(("p", "p")),
    "factor_mixing": Numbers(("p", "p")),
    "factor_condition": Number(),
    "gradient_norm": Number(),
    "decrement": Number(),
    "iterations": Count(),
    "reach": Number(),
}
PROPOSAL: Layout = {"proposal": Blob(16)}

MATCH = operation("match", {}, {}, says="that its table matches the schema, or does not")
MOMENTS = operation(
    "moments",
    {},
    TOTALS,
    says="its number of rows; mean and variance of each number; which columns change within a person",
)
SCALE = operation(
    "scale needed",
    FITTED,
    {"rung": Count(LEAST_RUNG, MOST_RUNG)},
    says="the noise scale that its most exposed patient needs, rounded up to a rung of the public ladder 2^(k/2)",
)
LIMITS = operation(
    "within limits",
    {**FITTED, **PROPOSAL, "scale": Number(), "chosen": Flag()},
    {"within": Flag()},
    says="whether all its patients stay within their limits: yes or no, internal",
)
SCORE = operation(
    "score",
    {"coef": Numbers(("d",)), "intercept": Number(), "mean": Number()},
    {"part": Number(), "whole": Number()},
    says="how well given weights predict its rows: two sums, exact, internal",
)
BOOK = operation(
    "book",
    {**PROPOSAL, "artefact": Blob(32 << 20), "recipe": Text(20_000), "fingerprint": Blob(32)},
    {"booked": Flag()},
    says="that its ledger holds the release",
)
FINISH = operation("finish", {"released": Flag()}, {}, says="that it knows that the study has ended")

# --- components, and noise at the sites ---

MOMENT: Layout = {"people": Count(1, MOST_ROWS), "products": Numbers(("q", "q")), "sums": Numbers(("q",))}
SECOND_MOMENT = operation(
    "second moment",
    {},
    MOMENT,
    says="its number of patients; sums of the encoded columns and of their products, exact",
)
NOISY_MOMENT = operation(
    "noisy moment",
    {},
    MOMENT,
    says="its number of patients; mean and second moment of the encoded columns with the site's own noise",
)

# --- patients as the unit ---

EVENT_LIMITS = operation(
    "within budget",
    {**PROPOSAL, "people": Count(1, MOST_ROWS)},
    {"within": Flag()},
    says="whether all its patients stay within their limits: yes or no, internal",
)
MOST_PATIENTS = 1 << 30
PATIENT_SUM = operation(
    "patient sum",
    {"round": Count(), "model": Numbers(("weights",)), "clip": Number()},
    {"steps": WholeNumbers(("weights",)), "halves": Count(-MOST_PATIENTS, MOST_PATIENTS)},
    says="the sum of its drawn patients' clipped updates, and how many were not clipped, exact",
)
