"""The commands below `ident3d benchmark`."""
