"""`python -m civitas` is the command `civitas`."""

from civitas.cli.main import main

if __name__ == "__main__":
    main()
