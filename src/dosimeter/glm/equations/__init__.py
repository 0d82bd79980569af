"""Estimators that solve equations: several outputs, Huber, discriminants, naive Bayes, sparse weights."""
