"""`python -m ident3d` is `ident3d`; torchrun starts programs as modules."""

from .cli import main

if __name__ == "__main__":
    main()
