"""Errors: bad input, a model that cannot be measured, an exceeded limit, an altered ledger."""


class Refusal(ValueError):
    """Bad input or usage. The message names the offending value and says what to do. Exit code 2."""


class CannotMeasure(Refusal):
    """The leakage of this model cannot be computed. The message says why. Exit code 3."""


class LimitExceeded(Refusal):
    """A person would exceed a limit; nothing was released or written. Exit code 1."""


class Tampered(Refusal):
    """The ledger was edited, truncated, damaged or rolled back to an older copy. Exit code 4."""


class Interrupted(Exception):
    """Ctrl-C in the middle of a verb. The text says how to go on; it is empty if there is nothing to resume."""
