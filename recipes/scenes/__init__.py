"""The captioning recipe: rendered scenes, captioned with soft attention, hard attention and a Transformer."""
