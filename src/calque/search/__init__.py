"""From step probabilities to hypotheses: greedy, beam, scoring, ensembles.

Knows a Step, never a model.
"""
