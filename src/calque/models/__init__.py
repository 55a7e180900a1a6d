"""One file for each published family, all behind the seam (Memory, Encoder, Decoder); named systems.

Never imports text, data or search.
"""
