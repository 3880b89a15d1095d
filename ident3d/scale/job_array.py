"""Shares of work, and the script that has Slurm do them as a job array."""

import re
import shlex
from collections.abc import Sequence
from typing import Any

import click

# The option that prints the script, as `click.option` takes it; N may be left out.
SLURM: dict[str, Any] = {
    "help": "Print a Slurm script that does it as an array of N tasks, 8 if left, and stop.",
    "metavar": "[N]",
    "type": click.IntRange(1),
    "is_flag": False,
    "flag_value": 8,
}
_SCRIPT = """\
#!/bin/bash
# {command}
#
#   bash THIS_FILE      submits an array of tasks, and a last task that ends the work after them
#   sbatch THIS_FILE    submits the array alone
#
# All tasks see the folder that this is submitted from. Any of them may be killed at any instant and
# run again, on any node: what is stored is kept, and work that is done is not done again.

#SBATCH --job-name={name}
#SBATCH --output={name}-%A-%a.log
# A task that runs again adds to its log.
#SBATCH --open-mode=append
# One task for each share, and what each of them gets:
#SBATCH --array=1-{shares}
#SBATCH --cpus-per-task={cpus}
{gpus}#SBATCH --time=12:00:00
# Tasks that are pre-empted, or whose node is lost, go to the queue again; and so, by what is below,
# do those that are told two minutes before their time is over.
#SBATCH --requeue
#SBATCH --signal=B:USR1@120
# Add what your cluster wants, such as --partition and --account, and what makes `ident3d` known:
# source /shared/venv/bin/activate

if [ -z "$SLURM_ARRAY_TASK_ID" ]; then
    array=$(sbatch --parsable "$0") || exit
    echo "array $array"
    # After all tasks have ended, however they did; 0 is the last task.
    exec sbatch --dependency="afterany:$array" --array=0 "$0"
fi

run() {{
    "$@" &  # in the background: bash hears signals while it waits
    child=$!
    wait "$child"
}}
again() {{  # the time is nearly over
    kill "$child" && wait "$child"
    scontrol requeue "${{SLURM_ARRAY_JOB_ID}}_$SLURM_ARRAY_TASK_ID"
    exit
}}
trap again USR1
trap 'kill "$child"; wait "$child"; exit 143' TERM  # pre-empted: Slurm puts it in the queue again

if [ "$SLURM_ARRAY_TASK_ID" != 0 ]; then
    # Which share is its own, of how many.
    run {share} "$SLURM_ARRAY_TASK_ID/{shares}"
    exit
fi
{last}
"""


def sbatch_script(
    name: str,
    command: Sequence[str],
    last: Sequence[Sequence[str]],
    shares: int,
    cpus: int = 1,
    gpus: int = 0,
) -> str:
    """Write a script for `sbatch` that does a command in shares, and ends the work.

    The command takes `--shard I/N`, and is given without it. Of the `last` task's commands one that
    fails does not keep the next from being tried. `cpus` and `gpus` are those of each task.
    """
    return _SCRIPT.format(
        name=name,
        shares=shares,
        cpus=cpus,
        gpus=f"#SBATCH --gpus={gpus}\n" if gpus else "",
        command=" ".join(shlex.join([*command, "--slurm", str(shares)]).split()),
        share=shlex.join([*command, "--shard"]),
        last="\n".join(f"run {shlex.join(words)}" for words in last),
    )


def parse_share(text: str) -> tuple[int, int]:
    """Read `I/N`, the I-th of N shares."""
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    index, shares = map(int, match.groups()) if match else (0, 0)
    if not 1 <= index <= shares:
        raise ValueError(f"`shard` must be I/N with I from 1 to N, such as 1/8; got {text!r}.")
    return index, shares
