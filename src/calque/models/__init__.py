"""One file per published model family, all behind the interfaces Memory, Encoder and Decoder; and named systems.

This package never imports `calque.text`, `calque.data` or `calque.search`.
"""
