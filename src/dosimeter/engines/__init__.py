"""Where sums over rows are taken: in memory, over a file larger than memory, elsewhere. No mathematics in here."""
