"""A command group that imports its commands only when they are called."""

import importlib
from collections.abc import Mapping
from typing import Any

import click

Table = Mapping[str, tuple[str, str]]  # name -> ("module:attribute", the line --help shows)


class LazyGroup(click.Group):
    """Knows its commands from a table, so that listing them imports none of them."""

    def __init__(self, *arguments: Any, table: Table, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._table = table

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name the commands in the order a user meets them."""
        return list(self._table)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Import one command."""
        if name not in self._table:
            return None
        module, attribute = self._table[name][0].split(":")
        return getattr(importlib.import_module(module), attribute)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands from the table alone."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in self._table.items()])
