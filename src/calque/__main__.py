"""`python -m calque` runs the command `calque`."""

from calque.commands.main import run

if __name__ == "__main__":
    run()
