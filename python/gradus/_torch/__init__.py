"""Parts of gradus.torch."""
