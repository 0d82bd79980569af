"""Ratios that were stored, and which of today's are worse by more than a fifth."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness.registry import Ratio

WORSE = 1.2
"""Times the stored ratio above which a ratio is named."""
Key = tuple[str, str]
"""Row and name of a ratio."""


@dataclass(frozen=True)
class Worsening:
    """A ratio that is above the stored one by more than the tolerance."""

    key: Key
    stored: float
    today: float

    def __str__(self) -> str:
        row, name = self.key
        return f"{row}, {name}: {self.today:.3g}, stored {self.stored:.3g} ({self.today / self.stored:.2f} times)"


def stored_ratios(path: Path) -> dict[Key, float]:
    """Row and name -> ratio; empty if nothing was stored."""
    if not path.is_file():
        return {}
    entries = json.loads(path.read_text(encoding="utf-8"))["ratios"]
    return {(entry["row"], entry["name"]): float(entry["ratio"]) for entry in entries}


def worsenings(ratios: Mapping[Key, Ratio], stored: Mapping[Key, float], tolerance: float = WORSE) -> list[Worsening]:
    """What got worse. A ratio without a stored one is new, and not compared."""
    return [
        Worsening(key, stored[key], today.ratio)
        for key, today in ratios.items()
        if key in stored and today.ratio > tolerance * stored[key]
    ]


def as_json(ratios: Mapping[Key, Ratio], skipped: Mapping[Key, str], **about: Any) -> dict[str, Any]:
    """All that one run of the benchmark says."""
    lines: Sequence[dict[str, Any]] = [
        {"row": row, **asdict(ratio), "ratio": ratio.ratio} for (row, _), ratio in ratios.items()
    ]
    left_out = [{"row": row, "name": name, "why": why} for (row, name), why in skipped.items()]
    return {"format": "dosimeter.benchmark/1", **about, "ratios": lines, "skipped": left_out}


def store(path: Path, run: Mapping[str, Any]) -> None:
    """Keep a run as the reference; ratios of an earlier one that did not run today stay."""
    earlier = json.loads(path.read_text(encoding="utf-8"))["ratios"] if path.is_file() else []
    today = {(entry["row"], entry["name"]) for entry in run["ratios"]}
    kept = [entry for entry in earlier if (entry["row"], entry["name"]) not in today]
    ratios = sorted([*kept, *run["ratios"]], key=lambda entry: (entry["row"], entry["name"]))
    text = json.dumps({**run, "ratios": ratios, "skipped": []}, indent=1, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")
