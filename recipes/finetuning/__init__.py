"""Fine-tuning to another domain, and what is forgotten of the first."""
