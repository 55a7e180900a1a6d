"""One file per published model family, all behind the interfaces Memory, Encoder and Decoder; and named systems.

Never imports text, data or search.
"""
