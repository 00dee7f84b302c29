"""`python -m moothall` is the command `moothall`."""

from moothall.cli.main import main

if __name__ == "__main__":
    main()
