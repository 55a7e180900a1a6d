"""Every named system, as narrow as possible."""

from calque.models.model import ModelConfig
from calque.models.systems import SYSTEMS, scaled

MODELS: dict[str, ModelConfig] = {
    f"system {name}": scaled(system.model, scale=0.01)
    for name, system in SYSTEMS.items()
    if name != "language"  # which has no source: tests/laws/test_language.py
}
