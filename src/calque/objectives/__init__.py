"""Training objectives under the names of their papers: cross-entropy, R-Drop, minimum risk and others.

Each computes the loss of a model on a batch.
"""
