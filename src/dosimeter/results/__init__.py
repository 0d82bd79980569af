"""One typed result per verb. Every field is marked public or internal, with the reason beside it."""
