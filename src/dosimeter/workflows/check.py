"""`dm.check`: everything in a folder that is to leave an environment, in one pass, against a policy."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from dosimeter.core.accounts import Account
from dosimeter.core.errors import Refusal
from dosimeter.core.notion import FISHER, key_of
from dosimeter.core.progress import stage, track
from dosimeter.core.text import safe_text
from dosimeter.files.file_checks import refuse_folder
from dosimeter.ledger import Ledger
from dosimeter.results.check import CheckReport, PolicyFacts
from dosimeter.results.visibility import present
from dosimeter.tables.coefficient_table import CovarianceTable
from dosimeter.tables.table import Table
from dosimeter.workflows.check_desk import BookedFile, Desk
from dosimeter.workflows.check_file import check_file, coefficients_of
from dosimeter.workflows.check_policy import Policy, read_policy
from dosimeter.workflows.people_table import read_people

AnyPath = str | os.PathLike[str]
MOST_FILES = 10_000


def check(folder: AnyPath | Sequence[AnyPath], *, policy: AnyPath | None = None) -> CheckReport:
    """Check every file of a folder: what is inside, what it leaks, whether it is booked. Nothing in it is run.

    Parameters
    ----------
    folder
        The folder with everything that is to leave: model files, coefficient tables of R, Stata or SAS as .csv with
        their covariance, results, pages. Links are not followed. Or single files, or several of both.
    policy
        A .toml file with limits and rules, and with the training table and the ledger if they are at hand. Without it
        ten residual degrees of freedom, counts of ten, and a person's look at everything else.

    Returns
    -------
    CheckReport
        `.files` with a verdict for each (pass, review, fail) and the reasons; `.exit_code` is that of the command line.

    Raises
    ------
    Refusal
        There is no such folder, or the policy has a key that is not known.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     text = "term,estimate,std.error,df.residual\\n(Intercept),1.5,0.2,4\\nage,0.1,0.05,4\\n"
    ...     _ = Path(folder, "model.csv").write_text(text)
    ...     report = check(folder)
    >>> report.files[0].verdict, report.files[0].reasons[0]
    ('fail', '4 residual degrees of freedom, below 10')
    """
    roots = [Path(folder)] if isinstance(folder, str | os.PathLike) else [Path(place) for place in folder]
    rules = read_policy(policy)
    places = {path: name for root in roots for path, name in _files(root)}
    if len(places) > MOST_FILES:
        raise Refusal(f"more than {MOST_FILES} files: check them in parts")
    desk = Desk(rules, _table(rules), booked=_booked(rules))
    for path, name in places.items():
        parsed = coefficients_of(path)
        if isinstance(parsed, CovarianceTable):
            desk.covariances.append((name, parsed))
        elif parsed is not None:
            desk.regressions.append((name, parsed))
    stage("checking the files")
    files = [check_file(path, name, desk) for path, name in track(list(places.items()))]
    return CheckReport.of(", ".join(safe_text(root.name, 120) for root in roots[:3]), _facts(rules), files)


def _files(root: Path) -> list[tuple[Path, str]]:
    """(path, name in the report) of every file below a folder, links too, which are not followed; or of one file."""
    if root.is_file() or root.is_symlink():
        return [(root, root.name)]
    if not root.is_dir():
        raise Refusal(f"{safe_text(root, 120)}: not a folder: name the folder with everything that is to leave")
    places: list[Path] = []
    for folder, folders, names in os.walk(root, onerror=refuse_folder, followlinks=False):
        folders.sort()
        links = [name for name in folders if Path(folder, name).is_symlink()]
        places += [Path(folder, name) for name in sorted([*names, *links])]
        if len(places) > MOST_FILES:
            raise Refusal(f"{safe_text(root, 120)}: more than {MOST_FILES} files: check them in parts")
    if not places:
        raise Refusal(f"{safe_text(root, 120)}: there is no file in it: nothing is to leave")
    return [(path, str(path.relative_to(root))) for path in places]


def _table(policy: Policy) -> Table | None:
    """The training table of the policy."""
    data = policy.data
    if not data:
        return None
    return read_people(
        data["table"],
        target=data["target"],
        person=data.get("person"),
        categorical=data.get("categorical", ()),
        exclude=data.get("exclude", ()),
        delimiter=data.get("delimiter", ","),
        decimal=data.get("decimal", "."),
    )


def _booked(policy: Policy) -> dict[str, BookedFile]:
    """SHA-256 of every artefact in the ledger -> its entry."""
    if policy.ledger is None:
        return {}
    with Ledger.open(policy.ledger, policy.keys, without_keys=True) as ledger:
        highest: dict[int, float] = {}
        for dose in ledger.export()["doses"]:
            account = Account.of_text(dose["account"])
            if account.key == key_of(FISHER):
                highest[dose["seq"]] = max(highest.get(dose["seq"], 0.0), account.figure(dose["nano"]))
        return {
            str(entry.body.get("artefact", "")): BookedFile(entry.name, highest.get(entry.seq))
            for entry in ledger.releases()
        }


def _facts(policy: Policy) -> PolicyFacts:
    return PolicyFacts(
        least_residual_df=policy.least_residual_df,
        least_count=policy.least_count,
        exact=policy.exact,
        unread=policy.unread,
        booked=policy.booked,
        table=bool(policy.data),
        ledger=policy.ledger is not None,
        **present(max_dose=policy.max_dose),
    )
