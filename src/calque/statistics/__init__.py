"""Statistical models that predate neural networks: word alignment by IBM Model 1 and a hidden Markov model, and
n-gram language models.

Uses NumPy only: ids in, arrays out. May import data; never imports models or torch.
"""
