"""The page of a running consortium: which round, which sites, what is spent and left. No figure of a patient."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dosimeter.core.location import Location
from dosimeter.engines.consortium_operations import MATCH
from dosimeter.files.consortium_journal import FILE, read_status
from dosimeter.files.federated_checkpoint import lock_is_held
from dosimeter.models.site_memory import ASKED, questions_asked
from dosimeter.reports.layout import DefinitionList, Grid, Paragraph, Part, Section, Tile, Tiles, VerdictBanner
from dosimeter.serve.pages import CONSORTIUM, MENU, ServedPage

AWAY = 30.0
"""Seconds without a request after which a site counts as away: sites ask every ten."""
PENDING, FINISHED, ROUND = "pending.json", "finished.json", "round.json"


def consortium(folder: Path, *, label: str = "", head: str = "", alone: bool = False) -> ServedPage:
    """The page of a coordinator's or a site's state folder. alone: there is no ledger beside it."""
    if (folder / FILE).exists():
        verdict, sections = _coordinator(folder)
    elif (folder / ASKED).exists() or (folder / ROUND).exists():
        verdict, sections = _site(folder)
    else:
        raise Location(str(folder)).refusal("no study was run with this state folder", "name the `state` of a config")
    return ServedPage(
        "A consortium",
        verdict,
        sections,
        head or "none",
        label or "none",
        here="/" if alone else CONSORTIUM[0],
        menu=(("/", CONSORTIUM[1]),) if alone else (*MENU, CONSORTIUM),
    )


def _coordinator(folder: Path) -> tuple[VerdictBanner, tuple[Section, ...]]:
    status, running = read_status(folder), lock_is_held(folder / FILE)
    stage = str(status.get("stage", MATCH.name))
    stage = "waiting for the sites to read their tables" if stage == MATCH.name else stage
    ended = stage in ("released", "nothing was released")
    if ended:
        verdict = VerdictBanner(f"The study has ended: {stage}.", "good" if stage == "released" else "bad")
    elif running:
        verdict = VerdictBanner(f"The coordinator is running: {stage}.")
    else:
        verdict = VerdictBanner("The coordinator is not running. The same command resumes the study.", "bad")
    parts: list[Part] = []
    if "spent" in status:
        parts.append(Tiles(_tiles(status)))
    pairs = [
        ("study", status.get("study")), ("kind", status.get("kind")), ("step", stage),
        ("questions asked in this run", status.get("asked")), ("as of", _ago(status.get("time"))),
    ]  # fmt: skip
    parts.append(DefinitionList(tuple((name, str(value)) for name, value in pairs if value is not None)))
    sites = () if ended else (Section("Sites", tuple(_sites(status))),)
    return verdict, (Section("The study", tuple(parts)), *sites)


def _tiles(status: Mapping[str, Any]) -> tuple[Tile, ...]:
    spent, budget = float(status["spent"]), float(status["budget"])
    left = f"at δ = {float(status['delta']):g}"
    return (
        Tile("Round", f"{int(status['round'])} of {int(status['rounds'])}", ""),
        Tile("ε spent", f"{spent:.4g}", left),
        Tile("ε left", f"{max(0.0, budget - spent):.4g}", f"of {budget:g}"),
    )


def _sites(status: Mapping[str, Any]) -> list[Part]:
    names, seen = status.get("sites"), status.get("seen", {})
    if "clients" in status and isinstance(seen, dict):
        here = sum(float(each) <= AWAY for each in seen.values())
        return [Paragraph(f"{here} of {int(status['clients'])} clients were connected when this was last written.")]
    if not isinstance(names, list) or not isinstance(seen, dict):
        return [Paragraph("Shown with the next question.")]
    rows = tuple((k, str(name), _heard(seen.get(str(k)))) for k, name in enumerate(names, start=1))
    return [Grid("Sites", ("number", "name", "state when last written"), rows)]


def _heard(seconds: Any) -> str:
    if seconds is None:
        return "not heard of yet"
    return f"away for {float(seconds):.0f} s" if float(seconds) > AWAY else "connected"


def _site(folder: Path) -> tuple[VerdictBanner, tuple[Section, ...]]:
    agreed, booked = (folder / PENDING).exists(), folder / FINISHED
    state = "agreed, not booked yet" if agreed else "answering"
    if booked.exists():
        state = f"booked as entry {int(json.loads(booked.read_text())['seq'])}"
    running = lock_is_held(folder / "site")
    text = "This site is running" if running else "This site is not running"
    pairs = [("release", state)]
    if (folder / ASKED).exists():
        pairs.insert(0, ("questions answered", str(questions_asked(folder))))
    if (folder / ROUND).exists():
        pairs.insert(0, ("last round", str(int(json.loads((folder / ROUND).read_bytes())["round"]) + 1)))
    return VerdictBanner(f"{text}: {state}."), (Section("The study", (DefinitionList(tuple(pairs)),)),)


def _ago(moment: Any) -> str | None:
    return None if moment is None else f"{max(0.0, time.time() - float(moment)):.0f} s ago"
