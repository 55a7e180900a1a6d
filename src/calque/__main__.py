"""`python -m calque` runs the command `calque`.

The worker processes of data preparation import this module again; they do not load the commands.
"""

if __name__ == "__main__":
    from calque.commands.main import run

    run()
