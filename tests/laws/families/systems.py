"""Every named system, as narrow as possible."""

from calque.models.model import ModelConfig
from calque.models.systems import TRANSLATORS, scaled

MODELS: dict[str, ModelConfig] = {
    f"system {name}": scaled(system.model, scale=0.01) for name, system in TRANSLATORS.items()
}
