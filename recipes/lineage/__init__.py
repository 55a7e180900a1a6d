"""The architectures from Cho et al. 2014 to the Transformer at one size, and the claims of their papers."""
