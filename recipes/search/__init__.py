"""Search measured: beam widths, scores, stopping, constraints, and independence of the batch."""
