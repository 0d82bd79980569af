"""The minimiser of eq. 13 of [Hannun21] with its certificate: in memory, on sparse and wide tables, and over blocks."""
