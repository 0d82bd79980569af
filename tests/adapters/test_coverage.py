"""The models and steps of the list, each measured and compared with refits, or refused with its reason."""

from __future__ import annotations

import pytest
from benchmarks.coverage import Case, cases, outcome

LIST = list(cases())


@pytest.mark.parametrize("case", LIST, ids=[case.name for case in LIST])
def test_a_model_of_the_list_has_the_figures_of_its_refits_or_a_reason(case: Case) -> None:
    line = outcome(case)
    if case.refused:
        assert not line.measured
        assert case.refused in line.remark
        return
    assert line.measured, line.remark
    assert line.error is not None
    # Times of a Cox model are ordered, and its refits stop earlier.
    assert line.error <= (1e-5 if case.section == "proportional hazards" else 1e-6)


def test_nineteen_in_twenty_of_the_list_are_to_be_measured() -> None:
    wanted = [case for case in LIST if case.section != "refused"]
    assert len(wanted) >= 100
    assert all(case.refit is not None for case in wanted)
