"""LoRA: small matrices that train beside the frozen weights of a model (Hu et al. 2021)."""
