"""Wrong command lines; they name `data`, a data set, `file`, a file, and `empty`, a folder."""

NUMBERS = ("-1", "0", "1.5", "x", "", "1e3", "nan", "9" * 30)
EVERY = ("info", "verify", "sheet", "index", "audit", "import", "download", "export", "render")
PATHS = ("info", "verify", "sheet", "index", "audit --conditional normal:0.1", "export {} out")

LINES = [
    "frob",
    "infos",
    "--frob",
    "benchmark frob",
    "benchmark --frob",
    *(f"{command} --frob" for command in EVERY),
    *(f"benchmark {name} --frob" for name in ("list", "run", "controls", "score", "report")),
    *(f"benchmark {name} --frob" for name in ("pack", "verify")),
    *(
        "index",
        "import",
        "import a",
        "download",
        "download 3dident",
        "export",
        "export a",
        "render",
    ),
    *("benchmark run", "benchmark score", "benchmark report", "benchmark pack", "benchmark verify"),
    *("info a b", "verify a b", "sheet a b", "index a b", "import a b c", "download a b c d"),
    *("export a b c", "audit a b", "doctor a b", "demo a b", "render a b", "benchmark report a b"),
    # Paths that are not there, are files, or are folders of something else.
    *(f"{one.format('missing')} {'' if '{}' in one else 'missing'}" for one in PATHS),
    *(f"{one.format('file')} {'' if '{}' in one else 'file'}" for one in PATHS),
    *(f"{one.format('empty')} {'' if '{}' in one else 'empty'}" for one in PATHS),
    *(f"{one.format('data/val')} {'' if '{}' in one else 'data/val'}" for one in PATHS),
    *("import missing out", "import file out", "import empty out", "import data/train out"),
    *("import data out", "import . out --split a/b", "import file out --split ''"),
    # Numbers.
    *(f"sheet --count '{n}' --out new.png" for n in NUMBERS),
    *(f"sheet --traverse --steps '{n}' --out new.png" for n in NUMBERS),
    *(f"sheet --seed '{n}' --out new.png" for n in NUMBERS if n not in ("0", "9" * 30)),
    *(f"audit --rows '{n}' --conditional normal:0.1" for n in NUMBERS),
    *(f"audit data --conditional normal:0.1 --pairs '{n}'" for n in NUMBERS),
    *(f"audit data --conditional normal:0.1 --seed '{n}'" for n in ("-1", "x", "1.5")),
    *(f"render new --size '{n}'" for n in NUMBERS),
    *(f"render new --size 5 --shard-size '{n}'" for n in NUMBERS),
    *(f"render new --size 5 --samples '{n}'" for n in NUMBERS),
    *(f"render new --size 5 --resolution '{n}'" for n in (*NUMBERS, "7", "8193")),
    *(f"render new --size 5 --workers '{n}' --device cpu" for n in NUMBERS),
    *(f"render new --size 5 --seed '{n}'" for n in ("1.5", "x", "", "9" * 30)),
    *(f"index data --recall '{n}'" for n in ("-1", "0", "1.5", "x", "nan", "inf", "")),
    *(f"benchmark run table1/1 --seeds '{n}' --dry-run" for n in NUMBERS),
    *(f"benchmark run table1/1 --workers '{n}' --dry-run" for n in NUMBERS),
    *(f"benchmark controls table1/1 --seeds '{n}'" for n in NUMBERS),
    # Words with a fixed set.
    "render new --size 5 --preset frob",
    "render new --size 5 --hue frob",
    "render new --size 5 --device frob",
    "render new --size 5 --factors frob",
    "render new --size 5 --factors ''",
    "audit data --method frob --conditional normal:0.1",
    "index data --device frob",
    "index data --factors frob",
    "export data out --format frob",
    "benchmark run frob",
    "benchmark run table1/99",
    "benchmark run table1/1 --tier frob",
    "benchmark run table1/1 --set frob=1",
    "benchmark run table1/1 --set frob",
    "benchmark run table1/1 --set steps=x --dry-run",
    "benchmark run table1/1 --set =",
    "benchmark run table1/1 --data data",
    "benchmark run missing_module:Method --dry-run",
    "benchmark run : --dry-run",
    "benchmark list frob",
    "benchmark controls frob",
    "benchmark controls table1/1 --tier frob",
    "download frob out",
    "download 3dindent out",
    "download 3dident out --split frob",
    # Grammars of our own.
    *(
        f"render new --size 5 --hold '{text}'"
        for text in ("x", "x=", "=1", "x=2", "frob=1", "x=nan")
    ),
    *(
        f"render new --size 5 --shard '{text}'"
        for text in ("", "1", "0/1", "2/1", "a/b", "1/0", "-1/2")
    ),
    *(f"render new --size 5 --split '{text}'" for text in ("", "a/b", "..", "a b", "é", ".x")),
    *(
        f"audit data --conditional '{text}'"
        for text in (
            *("", "frob", "normal", "normal:", "normal:x", "normal:-1", "normal:0", "normal:nan"),
            *("normal:inf", "normal:1:2", "gennorm:3", "gennorm:0:1", "vmf:10", "anisotropic:1"),
            *(
                "x=normal:0.1,frob=fixed",
                "x=",
                "=normal:1",
                "x=normal:0.1,x=fixed",
                ",",
                "laplace:",
            ),
        )
    ),
    *(
        f"download 3dident out --url '{text}'"
        for text in (
            *("", "x", "file:///etc", "ftp://host/", "https://", "http://host:port/", "/etc"),
            *("http://[::1", "http://a b/", "http://host:99999999/", "http://é/", "http://a..b/"),
        )
    ),
    # Options that do not go together.
    "audit",
    "audit data --rows 100 --conditional normal:0.1",
    "audit --rows 100",
    "audit data --method exat --conditional normal:0.3",
    "audit data --conditional normal:0.1 --plot plot.frob",
    "sheet data --render",
    "sheet data --out sheet.frob",
    "render new",
    "render new --latents missing.npy",
    "render new --latents file",
    "render new --latents empty",
    "render file --size 5",
    "benchmark score --data data",
    "benchmark score --embeddings file",
    "benchmark score --data data --embeddings file",
    "benchmark score --data data --embeddings missing.npy",
    "benchmark score --data data --encoder file",
    "benchmark score --data data --encoder missing:encoder",
    "benchmark score --data data --encoder math:pi",
    "benchmark score --data data --encoder math:frob",
    "benchmark score --data data --embeddings file --weights file",
    "benchmark score --data data --embeddings file --protocol frob",
    "benchmark score --data missing --embeddings file",
    "benchmark report missing",
    "benchmark report empty",
    "benchmark report file",
    "benchmark report empty --data missing",
    "benchmark pack missing.json --out out",
    "benchmark pack file --out out",
    "benchmark pack file",
    "benchmark verify missing --data data",
    "benchmark verify empty --data data",
    "benchmark verify file --data data",
    "benchmark verify empty --data missing",
]
