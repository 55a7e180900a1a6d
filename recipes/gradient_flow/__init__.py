"""How gradients flow through plain and gated, shallow and deep, attentional and other networks."""
