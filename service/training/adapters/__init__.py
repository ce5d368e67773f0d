"""LoRA: small matrices that train next to a model's frozen weights (Hu et al. 2021)."""
