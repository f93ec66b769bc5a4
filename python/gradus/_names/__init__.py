"""Names that users of NumPy and PyTorch know, made of the operators of the library: loaded when first used."""
