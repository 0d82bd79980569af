"""Texts and sparse tables before a model: the unknown of a row is its vector of counts, which is never written out."""
