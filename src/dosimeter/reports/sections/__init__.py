"""The sections of a report: an edition of the facts in, plain values for the templates out. One module a slice."""
