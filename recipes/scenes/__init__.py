"""The recipe of captioning: rendered scenes, soft and hard attention and a Transformer."""
