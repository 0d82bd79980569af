"""What the verbs compute on a table with names: models fitted, measured, noised and attacked, by column and person.

The slices (`glm`, `pca`, `pate`, `federated`) know arrays only. Here their figures get the table's own names.
"""
