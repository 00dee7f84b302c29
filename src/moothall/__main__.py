"""`python -m moothall` is the command `moothall`."""

from moothall.cli import start

if __name__ == "__main__":
    start()
