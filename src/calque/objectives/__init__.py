"""Training objectives under the names of their papers: cross-entropy, R-Drop, minimum risk and others.

They compute the loss of a batch with a model.
"""
