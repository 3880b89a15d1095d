"""Command-line options from a frozen dataclass: name, default, type and help said once."""

import dataclasses
import functools
import typing
from collections.abc import Callable
from typing import Any, TypeVar

import click

T = TypeVar("T")


def option(default: Any, help: str, **click_settings: Any) -> Any:
    """Declare a field that is also an option; `click_settings` go to `click.option` as they are."""
    return dataclasses.field(default=default, metadata={"help": help, **click_settings})


def options_of(settings: type[T]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorate a command: it gets one option per field, and an instance of `settings` first."""
    fields = dataclasses.fields(settings)

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
    return click.option(*flags, field.name, default=field.default, show_default=shown, **keywords)
