"""What a model is trained for; translation first.

Joins batches and models into a loss.
"""
