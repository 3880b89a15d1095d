"""Text that comes from strangers, on its way to a terminal."""


def printable(text: object, keep: str = "") -> str:
    """Write control, invisible and direction-changing characters as escapes, but those in `keep`.

    A terminal obeys some of them: it may be told to hide, rewrite or send text.
    """
    return "".join(
        c if c.isprintable() or c in keep else c.encode("unicode_escape").decode()
        for c in str(text)
    )
