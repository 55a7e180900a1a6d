"""Statistical models that predate neural networks: word alignment, n-gram language models, hidden Markov models.

Uses NumPy only: ids in, arrays out. May import data; never imports models or torch.
"""
