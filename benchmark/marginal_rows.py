"""The figure on marginals that are not uniform: R2 against the marginal's concentration."""

EXPERIMENTS = ()
