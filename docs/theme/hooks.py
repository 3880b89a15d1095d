"""What the site does beside Markdown: notebooks become pages, short code stays on one line."""

import json
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

sys.path.insert(0, str(Path(__file__).parent))
from notebook import to_markdown  # a hook is no package: its folder comes first


def on_files(files: Files, config: Any) -> Files:
    """Give every notebook a page beside it; the notebook itself stays, to be downloaded."""
    for file in [file for file in files if file.src_uri.endswith(".ipynb")]:
        page = to_markdown(json.loads(file.content_string))
        note = f"[Download this notebook]({Path(file.src_uri).name})\n"
        title, _, rest = page.partition("\n")
        name = file.src_uri.removesuffix(".ipynb") + ".md"
        files.append(File.generated(config, name, content=f"{title}\n\n{note}\n{rest}"))
    return files


def on_page_content(html: str, **_: Any) -> str:
    """Mark inline code that is short, such as `--pairs`: it is not broken after a hyphen."""
    return re.sub(r"<code>([^<]{1,28})</code>", r'<code class="short">\1</code>', html)
