"""The rows of `make bench`, one module per subject. A new row is one module here: it is found by itself.

from harness.registry import Ratio, Settings, row

@row("key", "What the chart is called")
def compare(settings: Settings) -> Iterator[Ratio]:
    ours, peer = least(settings.runs, our_call, peer_call)
    yield Ratio("1,000 x 20", ours, peer, "what the peer does")
"""

from importlib import import_module
from pathlib import Path


def load() -> None:
    """Import every module, which registers its rows. Those of one name order stay in that order."""
    for module in sorted(Path(__file__).parent.glob("*.py")):
        if module.stem != "__init__":
            import_module(f"rows.{module.stem}")
