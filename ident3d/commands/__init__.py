"""The subcommands of `ident3d`, one file each."""
