"""A result file: what `--json` wrote, read back strictly."""

from __future__ import annotations

import os

from dosimeter.core.errors import Refusal
from dosimeter.files.file_checks import os_error_refusal, refuse_pickle, regular_file
from dosimeter.files.strict_json import parse
from dosimeter.results.result import Result, read

LIMIT = 32 * 2**20
"""Bytes. A verb's result is below a hundredth of it."""
_REMEDY = "pass the file that --json of a verb wrote"


def read_result(path: str | os.PathLike[str]) -> Result:
    """The result in a file, checked against its schema; anything else is refused in one line."""
    file, source = regular_file(path, LIMIT)
    refuse_pickle(file, source, model=False)
    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise source.refusal("not a result (not UTF-8)", _REMEDY) from None
    except OSError as error:
        raise os_error_refusal(error, source, "read") from None
    try:
        return read(parse(text))
    except RecursionError:
        raise source.refusal("not a result (nested too deep)", _REMEDY) from None
    except Refusal as error:
        raise source.refusal(str(error), _REMEDY) from None
    except ValueError:
        raise source.refusal("not a result (not JSON)", _REMEDY) from None
