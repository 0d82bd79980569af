"""`python -m dosimeter`."""

from dosimeter.cli.main import main

if __name__ == "__main__":
    main()
