"""Statistical models from before the networks: word alignment by IBM Model 1 and a hidden Markov model.

NumPy alone, ids in and arrays out; may use data. Never imports models or torch.
"""
