"""The command line: one file per verb. Data goes to stdout, everything else to stderr."""
