"""`python -m calque` runs the command `calque`.

A process that prepares data imports this module once more, but needs none of the commands.
"""

if __name__ == "__main__":
    from calque.commands.main import run

    run()
