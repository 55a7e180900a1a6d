"""How gradients flow through plain and gated, shallow and deep networks, with and without attention."""
