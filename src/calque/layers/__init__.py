"""The parts models are made of: attention, recurrent cells, Transformer blocks, positions, output.

Knows tensors only.
"""
