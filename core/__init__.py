"""The evidence lookup of a diagnosis agent: runbooks in, a small verifiable set of evidence out."""

__version__ = "0.1.0"
