"""A page over the ledger on this machine alone: read-only, behind a token, without anything from outside."""
