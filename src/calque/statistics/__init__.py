"""Statistical models that predate neural networks: word alignment by IBM Model 1 and a hidden Markov model.

Uses NumPy only: ids in, arrays out. May import data; never imports models or torch.
"""
