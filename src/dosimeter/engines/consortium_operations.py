"""The operations of a consortium besides the sums of a fit: what a site is asked before and after it."""

from __future__ import annotations

from dosimeter.core.scale_ladder import LEAST_RUNG, MOST_RUNG
from dosimeter.engines.protocol.fields import Blob, Count, Flag, Layout, Number, Numbers, Text
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
