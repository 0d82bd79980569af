"""The papers, one module each: every printed number beside ours, and the published algorithms that only they need."""
