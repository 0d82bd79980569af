"""The face for tables with names: a dataframe and a fitted linear model in, leakage by column and person out.

Import from the modules (`frames.measure`, `frames.own`, `frames.table`): this page imports nothing.
"""
