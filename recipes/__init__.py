"""Recipes: configs, commands, and the scores and times they reached.

Run from the root of the repository: `python -m recipes.run CORPUS OUT --lists recipes/objectives/objectives.toml`. Code
that recipes share is in `recipes.runner`; a recipe imports only that package and Calque, never another recipe.
"""
