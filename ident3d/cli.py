"""The `ident3d` command: a table of subcommands, each imported only when it is called.

`ident3d --help` therefore answers at once, and needs neither torch nor Blender.
"""

import io
import os
import sys
import warnings
from collections.abc import Sequence

import click

from .commands.options import LazyGroup, examples
from .commands.versions import version_option
from .errors import DataError, printable, system_sentence

_HERE = "ident3d.commands"
# name -> (where the click command lives, the line `ident3d --help` shows)
COMMANDS = {
    "demo": (f"{_HERE}.demo_command:demo", "Run the whole pipeline, small, on this machine."),
    "doctor": (f"{_HERE}.doctor_command:doctor", "Say what works here, and how to get the rest."),
    "render": ("ident3d.render.render_command:render", "Render a data set; resumes what is there."),
    "info": (f"{_HERE}.info_command:info", "Say what a data set holds."),
    "verify": (f"{_HERE}.verify_command:verify", "Check every byte of a data set."),
    "sheet": (f"{_HERE}.sheet_command:sheet", "Draw a contact sheet or a traversal figure."),
    "index": (f"{_HERE}.index_command:index", "Build the look-up index; print its certificate."),
    "audit": (f"{_HERE}.audit_command:audit", "Compare the conditional requested and served."),
    "import": (f"{_HERE}.import_command:import_", "Convert a published data set."),
    "download": (f"{_HERE}.download_command:download", "Fetch a published data set."),
    "export": (f"{_HERE}.export_command:export", "Write a data set in formats that others read."),
    "plan": (f"{_HERE}.plan_command:plan", "Tell what it would cost, before it is started."),
    "benchmark": (
        "ident3d.benchmark.commands.benchmark_command:benchmark",
        "List, run, score, report, verify.",
    ),
}

BENCHMARK = ("torch", "torchvision", "sklearn", "jinja2", "safetensors")
EXTRAS = {
    "bpy": "render",
    "ray": "ray",
    "matplotlib": "plot",
    **dict.fromkeys(BENCHMARK, "benchmark"),
}


@click.group(
    cls=LazyGroup,
    table=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=examples("ident3d demo", "ident3d render --help"),
)
@version_option
def cli() -> None:
    """Ground-truth images and honest measurement for identifiable representation learning."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line. Errors are one sentence: exit 2 for bad use, 1 for failure."""
    warnings.formatwarning = _warning  # type: ignore[assignment]  # other arguments are dropped
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # not every terminal has a →; stderr escapes it
    try:
        cli.main(arguments, prog_name="ident3d", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("Stopped.", err=True)
        sys.exit(130)
    except BrokenPipeError:  # `ident3d info ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except (ValueError, DataError, OSError, ImportError, MemoryError) as error:
        if os.environ.get("IDENT3D_TRACEBACK"):  # for people who work on ident3d itself
            raise
        click.echo(f"Error: {_sentence(error)}{_remedy(error)}", err=True)
        sys.exit(2 if isinstance(error, ValueError) else 1)


def _warning(message: Warning | str, *_: object) -> str:
    """Write a warning as one line, without the line of code that gave it."""
    return f"Warning: {printable(message)}\n"


def _sentence(error: Exception) -> str:
    """Write an error as one line: what, why, a way out; it may quote a stranger's file."""
    text = str(error)
    if isinstance(error, OSError):
        text = system_sentence(error)
    elif isinstance(error, MemoryError):
        text = (
            f"There is not enough memory ({error or 'none is left'}); close something or ask less."
        )
    return printable(" ".join(text.split()))


def _remedy(error: Exception) -> str:
    """Name the extra that brings a missing module, where Python only names the module."""
    if not isinstance(error, ModuleNotFoundError) or error.name not in EXTRAS:
        return ""
    return f"; `pip install 'ident3d[{EXTRAS[error.name]}]'` brings it."
