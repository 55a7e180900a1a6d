"""The building blocks of models: attention, recurrent cells, Transformer blocks, positions, output layers.

Depends on tensors only.
"""
