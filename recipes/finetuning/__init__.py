"""Fine-tuning to another domain, and how much of the first domain is forgotten."""
