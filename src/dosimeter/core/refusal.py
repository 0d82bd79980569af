"""The two ways of saying no: the input is bad, or the model cannot be measured."""


class Refusal(ValueError):
    """Bad input or usage: the message names the offending value and says what to do. Exit code 2."""


class CannotMeasure(Refusal):
    """This model has no leakage figure here, and the message says why. Exit code 3."""
