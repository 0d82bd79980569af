"""Errors: bad input, a model that cannot be measured, a full disk, an exceeded limit, an altered ledger."""


class Refusal(ValueError):
    """Bad input or usage. The message names the offending value and says what to do. Exit code 2.

    Parameters
    ----------
    *args
        The message, as of any ValueError.

    Examples
    --------
    >>> import dosimeter as dm
    >>> try:
    ...     dm.Gaussian(-1.0)
    ... except dm.Refusal as refusal:
    ...     print(refusal)
    Gaussian(sigma=-1.0): the scale must be finite and > 0; use no_noise for an exact release
    """


class CannotMeasure(Refusal):
    """The leakage of this model cannot be computed. The message says why. Exit code 3.

    Parameters
    ----------
    *args
        The message, as of any ValueError.

    Examples
    --------
    >>> import dosimeter as dm
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> tree = DecisionTreeRegressor().fit([[0.0], [1.0]], [0.0, 1.0])
    >>> try:
    ...     dm.measure(tree, {"x": [0.0, 1.0]}, [0.0, 1.0], noise=dm.Gaussian(1.0))
    ... except dm.CannotMeasure as error:
    ...     print("no figure")
    no figure
    """


class NoiseWarning(UserWarning):
    """The noise of a federated round is longer than the longest mean update: the model will learn little.

    Parameters
    ----------
    *args
        The message, as of any warning.

    Examples
    --------
    >>> import dosimeter as dm
    >>> dm.plan_federation(10, epsilon=8, rounds=20).largest_model       # trainings of more parameters are warned about
    13
    """


class StorageFault(Refusal):
    """A file or database that cannot be read or written. The text names the place and nothing of its content."""


class LimitExceeded(Refusal):
    """A person would exceed a limit; nothing was released or written. Exit code 1."""


class Tampered(Refusal):
    """The ledger was edited, truncated, damaged or rolled back to an older copy. Exit code 4."""


class Interrupted(Exception):
    """Ctrl-C in the middle of a verb. The text says how to go on; it is empty if there is nothing to resume."""
