"""The ways of saying no: bad input, a model that cannot be measured, a limit, a ledger that was altered."""


class Refusal(ValueError):
    """Bad input or usage: the message names the offending value and says what to do. Exit code 2."""


class CannotMeasure(Refusal):
    """This model has no leakage figure here, and the message says why. Exit code 3."""


class LimitExceeded(Refusal):
    """Somebody would pass a limit; nothing was released and nothing written. Exit code 1."""


class Tampered(Refusal):
    """The ledger is not what was written into it: edited, cut, damaged or put back to an older copy. Exit code 4."""
