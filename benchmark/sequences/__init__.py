"""Sequences: silhouettes that walk, and table 3 of Zimmermann et al. 2021."""
