"""`python -m calque` runs the command `calque`.

The worker processes of data preparation import this module too; only the main process loads the commands.
"""

if __name__ == "__main__":
    from calque.commands.main import run

    run()
