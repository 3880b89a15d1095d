"""What commands share: `--json`, tables, options from a dataclass, and groups that import late.

Nothing here imports numpy, so that `ident3d --help` answers at once.
"""

import dataclasses
import functools
import importlib
import json
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from ..errors import printable

T = TypeVar("T")
Commands = Mapping[str, tuple[str, str]]  # name -> ("module:attribute", the line --help shows)

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def examples(*commands: str) -> str:
    """Write the end of a help text: commands that can be typed as they stand, a line each."""
    return "\n".join(["\b", "Examples:", *(f"  {command}" for command in commands)])


def echo_json(record: Any) -> None:
    """Print a record as JSON; NaN has no place in it."""
    click.echo(json.dumps(record, indent=2, allow_nan=False))  # which escapes all but ASCII


def say(text: str, err: bool = False) -> None:
    """Print what may quote a file of somebody else's: no control character reaches the terminal."""
    click.echo(printable(text, keep="\n"), err=err)


def echo(record: Any, text: str, as_json: bool) -> None:
    """Print a record as JSON, or what it says as text."""
    if as_json:
        echo_json(record)
    else:
        say(text)


def table(rows: Sequence[Sequence[str]], header: Sequence[str]) -> str:
    """Lay rows out under a header: words left-aligned, columns of numbers right-aligned."""
    columns = []
    for title, *cells in zip(header, *(map(str, row) for row in rows), strict=True):
        width = max(map(len, (title, *cells)))
        numbers = cells and all(not cell or cell[0] in "+-—.0123456789" for cell in cells)
        align = str.rjust if numbers else str.ljust
        columns.append([align(cell, width) for cell in (title, *cells)])
    return "\n".join("  ".join(line).rstrip() for line in zip(*columns, strict=True))


class LazyGroup(click.Group):
    """A command group that knows its commands from a table, so that listing them imports none."""

    def __init__(self, *arguments: Any, table: Commands, **settings: Any) -> None:
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

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete from the table alone: a key press must not wait for torch."""
        found = [
            CompletionItem(name, help=line)
            for name, (_, line) in self._table.items()
            if name.startswith(incomplete)
        ]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]


def typed_words(without: Sequence[str] = ()) -> list[str]:
    """Spell out the command that is running as it was typed, some of its options left out."""
    context = click.get_current_context()
    words = context.command_path.split()
    for parameter in context.command.params:
        name, value = str(parameter.name), context.params.get(str(parameter.name))
        source = context.get_parameter_source(name)
        if name in without or source is not click.core.ParameterSource.COMMANDLINE:
            continue
        values = value if isinstance(value, tuple) else (value,)
        if isinstance(parameter, click.Option):
            flag = parameter.opts[-1]
            words += [flag] if parameter.is_flag else [w for v in values for w in (flag, str(v))]
        else:
            words += map(str, values)
    return words


def option(default: Any, help: str, **click_settings: Any) -> Any:
    """Declare a field that is also an option; `click_settings` go to `click.option` as they are."""
    return dataclasses.field(default=default, metadata={"help": help, **click_settings})


def options_of(settings: type[T]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorate a command: it gets one option per field of a dataclass, and an instance first."""
    fields = dataclasses.fields(settings)  # type: ignore[arg-type]  # T has no bound for dataclasses

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def called(**values: Any) -> None:
            chosen = settings(**{field.name: values.pop(field.name) for field in fields})
            command(chosen, **values)

        for field in reversed(fields):
            called = _click_option(field)(called)
        return called

    return decorate


def _click_option(field: dataclasses.Field) -> Callable[[Any], Any]:
    keywords = dict(field.metadata)
    if field.type is bool:
        keywords["is_flag"] = True
    elif "type" not in keywords:
        # `int | None` is an int that may be left out.
        keywords["type"] = next(iter(typing.get_args(field.type)), field.type)
    shown = field.default is not None and field.type is not bool
    flags = keywords.pop("flags", (f"--{field.name.replace('_', '-')}",))
    if not keywords.get("required"):  # click takes any default, even None, for an answer
        keywords["default"] = field.default
    return click.option(*flags, field.name, show_default=shown, **keywords)
